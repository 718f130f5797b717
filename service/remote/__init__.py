"""Model files of other hosts: names → addresses → headers by byte range, asked of allowed hosts only."""
