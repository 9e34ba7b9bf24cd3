"""What runs inside a victim. Standard library only; loaded there by path as `_torch_chaos_agent`."""
