"""Three finished studies that any policy can sit; none imports another."""
