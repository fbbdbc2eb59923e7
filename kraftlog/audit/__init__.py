"""What must hold: declared checks over the evidence of one quorum. No Spark and no Delta here; see
`run.audit_of`.
"""
