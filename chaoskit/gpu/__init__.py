"""The GPUs of this machine without CUDA: which there are, which torch can use them, and how ranks share
them."""
