"""GGUF headers: bytes of any origin → metadata and tensor table, quickly and in bounded memory."""
