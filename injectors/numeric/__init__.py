"""To come in this series: see the catalogue."""
