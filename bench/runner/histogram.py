# SPDX-License-Identifier: Apache-2.0
"""Latencies counted by the engine (engine/histogram.h): merged, summarized, and written in HdrHistogram's text format."""
import collections
import math
import statistics

NAMES = ("median", "mean", "p99", "p99_9", "p99_99", "max", "std")  # of a summary


class Histogram:
    """Counts of nanoseconds, by the highest value of each bucket."""

    def __init__(self, *answers):
        self.counts, self.max, self.trace = collections.Counter(), 0, []
        for found in answers:
            self.add(found)

    def add(self, found):
        """Adds the histogram of an answer, or another Histogram."""
        if isinstance(found, Histogram):
            found = vars(found)
        else:
            found = {**found, "counts": dict(zip(found["counts"][::2], found["counts"][1::2]))}
        self.counts.update(found["counts"])
        self.max = max(self.max, found["max"])
        self.trace += found["trace"]

    def __len__(self):
        return sum(self.counts.values())

    def sorted(self):
        """Yields (value, number of values no greater), ascending."""
        before = 0
        for value in sorted(self.counts):
            before += self.counts[value]
            yield min(value, self.max), before

    def percentile(self, share):
        """Smallest value that is not exceeded by at least this share of all values; 0 without values."""
        rank = max(math.ceil(share * len(self)), 1)
        return next((value for value, before in self.sorted() if before >= rank), 0)

    def mean(self):
        return sum(min(value, self.max) * count for value, count in self.counts.items()) / len(self)

    def deviation(self):
        mean = self.mean()
        return math.sqrt(sum((min(value, self.max) - mean) ** 2 * count for value, count in self.counts.items()) / len(self))

    def summary(self, divisor=1):
        """Summary in microseconds, divided by divisor: 2 converts round trips to hops. All None without samples."""
        names = {"median": 0.5, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999, "max": 1}
        if not self.counts:
            return dict.fromkeys(NAMES)
        us = 1e3 * divisor
        found = {name: self.percentile(share) / us for name, share in names.items()}
        return {"median": found.pop("median"), "mean": self.mean() / us, **found, "std": self.deviation() / us}

    def typical(self, rate, window_s, shares):
        """Percentiles of windows of window_s each, and of these the medians, in us, which few disturbances of the machine affect. None if a
        window has too few samples."""
        size = int(rate * window_s)
        windows = [sorted(self.trace[at:at + size]) for at in range(0, len(self.trace) - size + 1, size)] if size >= 100 else []
        return [statistics.median(window[min(math.ceil(share * size), size) - 1] for window in windows) / 1e3 if windows else None
                for share in shares]

    def write(self, path, divisor):
        """Writes the percentile distribution in the format of HdrHistogram's outputPercentileDistribution(), for its plotters, with five
        steps for each halving of the distance to 100 %. In microseconds."""
        us, total, places = 1e3 * divisor, len(self), list(self.sorted())
        lines = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
        share = 0.0
        while places:
            rank = max(math.ceil(share * total), 1)
            value, before = next(place for place in places if place[1] >= rank)
            if before == total:
                lines.append(f"{value / us:12.3f} {1.0:2.12f} {total:10}")
                break
            lines.append(f"{value / us:12.3f} {share:2.12f} {before:10} {1 / (1 - share):14.2f}")
            share += 1 / (5 * 2 ** (math.floor(math.log2(1 / (1 - share))) + 1))
        summary = self.summary(divisor)
        lines.append(f"#[Mean    = {summary['mean']:12.3f}, StdDeviation   = {summary['std']:12.3f}]")
        lines.append(f"#[Max     = {summary['max']:12.3f}, Total count    = {total:12}]")
        lines.append(f"#[Buckets = {27:12}, SubBuckets     = {2048:12}]")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def summary_of(found):
    return Histogram(found).summary()
