"""`kubectl fedquota`: what people ask at a terminal.

A thin rim: words in, values to the domain, text out. What is printed on standard output can be applied or read by
programs; what is said to people goes to standard error. Never here: decisions.
"""
