"""The description of a state that can be sent as JSON: structure, exact leaves, tensors and their memory.

format   1
parts    {name: node}; nodes name tensors by path
tensors  [{path, part, dtype, shape, stride, parameter, requires_grad, device, region, offset, alias,
          hash, bytes}]
regions  [{bytes, device}], the memory that moves, in the order of `StateTree.tensors()`
digest   {total, parts: {name: digest}}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from recovery.state.digest import Digest, digest_parts, digest_tensor
from recovery.state.errors import StateError
from recovery.state.memory import Region, extent_bytes, find_regions, find_spans, layout_of
from recovery.state.walk import Walk

FORMAT = 1


@dataclass(frozen=True)
class Description:
    """A manifest and the live memory that it describes."""

    manifest: dict[str, Any]
    paths: list[str]
    tensors: list[Tensor]

    def regions(self) -> list[Region]:
        """Views of the memory, in the manifest's order."""
        return find_regions(self.paths, self.tensors)

    @property
    def digest(self) -> Digest:
        """The digest in the manifest."""
        return Digest(self.manifest["digest"]["total"], self.manifest["digest"]["parts"])


def describe(parts: dict[str, object]) -> Description:
    """Describe protected objects as they are now.

    Raises:
        StateError: something in them is not copied exactly.
    """
    known: dict[int, str] = {}
    walks = {name: Walk(name, obj, parts, known) for name, obj in parts.items()}
    found = [(name, path, tensor) for name, walk in walks.items() for path, tensor, _ in walk.found()]
    tensors = [tensor for _, _, tensor in found]
    specs = [_spec(*entry) for entry in found]
    spans = find_spans(tensors)
    for number, span in enumerate(spans):
        first = found[span.members[0][0]][1]
        for index, offset in span.members:
            # Relative to the first member, not to the region: how two tensors lie to each other.
            alias = [first, offset - span.members[0][1]]
            specs[index].update(region=number, offset=offset, alias=alias)
    nodes = {name: walk.node for name, walk in walks.items()}
    digest = digest_parts(nodes, specs)
    manifest = {
        "format": FORMAT,
        "parts": nodes,
        "tensors": specs,
        "regions": [
            {"bytes": span.stop - span.start, "device": tensors[span.members[0][0]].device.type}
            for span in spans
        ],
        "digest": {"total": digest.total, "parts": dict(digest.parts)},
    }
    return Description(manifest, [path for _, path, _ in found], tensors)


def check_format(manifest: dict[str, Any]) -> None:
    """Raise StateError when another version wrote the manifest."""
    if manifest.get("format") != FORMAT:
        problem = f"has format {manifest.get('format')!r}, this process reads {FORMAT}"
        raise StateError("manifest", problem, "run one version of recovery on all ranks")


def differences(left: dict[str, Any], right: dict[str, Any]) -> Iterator[str]:
    """Name where two manifests differ, most telling first: parts, then tensors, then leaves."""
    for name in sorted(left["parts"].keys() ^ right["parts"].keys()):
        yield f"{name}: protected on one side only"
    mine, theirs = ({spec["path"]: spec for spec in manifest["tensors"]} for manifest in (left, right))
    for path in sorted(mine.keys() ^ theirs.keys()):
        yield f"{path}: a tensor on one side only"
    for path in (path for path in mine if path in theirs):
        for key in ("dtype", "shape", "stride", "requires_grad", "alias", "hash"):
            if mine[path][key] != theirs[path][key]:
                shown = f"{key} {mine[path][key]} and {theirs[path][key]}"
                yield f"{path}: {'bytes differ' if key == 'hash' else shown}"
                break
    for name in (name for name in left["parts"] if name in right["parts"]):
        yield from _node_differences(name, left["parts"][name], right["parts"][name])


def _node_differences(path: str, left: Any, right: Any) -> Iterator[str]:
    if left == right and type(left) is type(right):
        return
    both = isinstance(left, list) and isinstance(right, list)
    if not both or len(left) != len(right) or not any(isinstance(item, list) for item in left):
        yield f"{path}: {left!r} and {right!r}"
        return
    for index, (one, other) in enumerate(zip(left, right, strict=True)):
        yield from _node_differences(_child(path, left, index), one, other)


def _child(path: str, node: list[Any], index: int) -> str:
    child = node[index]
    named = isinstance(child, list) and len(child) == 2 and isinstance(child[0], str)
    if named and isinstance(child[1], list):
        return f"{path}.{child[0]}" if child[0] not in ("list", "tuple", "dict") else path
    return path if len(node) == 2 and index == 1 else f"{path}/{index}"


def _spec(part: str, path: str, tensor: Tensor) -> dict[str, Any]:
    return {
        "path": path,
        "part": part,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": layout_of(tensor),
        "parameter": isinstance(tensor, nn.Parameter),
        "requires_grad": tensor.requires_grad,
        "device": tensor.device.type,
        "region": None,
        "offset": 0,
        "alias": [path, 0],
        "hash": digest_tensor(tensor),
        "bytes": extent_bytes(tensor),
    }
