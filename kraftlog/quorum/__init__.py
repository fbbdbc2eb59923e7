"""The quorum's model: what the copies hold and witness, and what follows from all of them together.
No judgement, no Spark.
"""
