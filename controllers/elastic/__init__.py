"""The controllers of elastic trees: what each leaf may use is worked out and published, and what follows is done.

What is to be done is decided by `federation_quota.elastic.plan` from what is watched. Here it is gathered (`watching`,
`counting`), written (`publishing`, `moving`), and looked at again (`trees`).
"""
