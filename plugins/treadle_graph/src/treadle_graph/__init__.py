"""Workflows as graphs: their structure in Python, and drawn as text, Mermaid, DOT or SVG."""

from treadle_graph.graph import GraphEdge, GraphNode, WorkflowGraph

__all__ = ["GraphEdge", "GraphNode", "WorkflowGraph"]
