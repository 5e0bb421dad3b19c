"""What several tests stand on; above all a disk that loses power."""
