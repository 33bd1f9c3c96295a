"""Steps `subworkflow`, `foreach` and `loop`: run other workflows, once, for every item, or until something holds."""
