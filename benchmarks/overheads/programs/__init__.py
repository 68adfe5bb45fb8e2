"""The contenders: programs that read commands, one JSON object a line, and answer each with one."""
