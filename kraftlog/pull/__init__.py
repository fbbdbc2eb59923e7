"""The live quorum as one more replica: what a controller answers over Kafka's own protocol becomes
a folder that every other command reads.
"""
