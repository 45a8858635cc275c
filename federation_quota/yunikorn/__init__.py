"""YuniKorn's queue configuration, read as strictly as YuniKorn reads it, and what it becomes here.

- `amount`: how it writes amounts, and compares them.
- `document`, `config`: a configuration as a value, from YAML in which every field is known.
- `checks`, `limits`, `placement`: its own rules, in its order and its words, so that whoever knows one knows the other.
- `naming`, `conversion`: our objects, and what could not be carried over.

Pure: text in, manifests out. What YuniKorn lets through and we do not is no business of these rules: our own are asked
about the result, as they would be when it is applied.
"""
