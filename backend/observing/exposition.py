"""The table of metrics (host/metrics.py) in Prometheus's text format.

Source: prometheus-client, custom collectors; Prometheus's exposition format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterator

from farlane.backend.host.metrics import METRICS, Snapshot
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
PREFIX = "farlane_"


class _Collector(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        for metric in METRICS:
            family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            found = family(PREFIX + metric.name, metric.help, labels=metric.labels)
            for sample in metric.read(self._snapshot):
                found.add_metric(sample.labels, sample.value)
            yield found


def text(snapshot: Snapshot) -> bytes:
    """All metrics of the host at that moment."""
    return generate_latest(_Collector(snapshot))
