"""What Kafka will do next with what lies on the disks: truncation, fetches, boots, elections.

Pure functions over small frozen values, each naming the rule that it follows. Nothing here knows
Spark; only `lost` opens files.
"""
