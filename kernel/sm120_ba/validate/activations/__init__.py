"""Inputs of layers, saved from a running model and compared later: capture, expand, replay."""
