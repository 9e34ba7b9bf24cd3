"""What is written for others to read: the generated pages of docs/, and specs in another project's format."""
