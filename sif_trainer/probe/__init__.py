"""Is internal feedback likely to help a policy on some prompts? Asked before training, from one batch of samples.

`recipe` says what is sampled, `sample` draws and scores groups, `record` keeps them, `rules` lets every rule vote on
them, `measure` and `intervals` turn votes into numbers, `windows` suggests settings, `verdict` says it in words.
"""
