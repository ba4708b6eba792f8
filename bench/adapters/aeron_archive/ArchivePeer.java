/* SPDX-License-Identifier: Apache-2.0 */
import io.aeron.Aeron;
import io.aeron.ExclusivePublication;

import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.status.CountersReader;

/**
 * Aeron's archive, measured as a store of libllm is: ArchivePeer ROLE KEY=VALUE...; requests and answers as in bench/engine/control.h.
 *
 * <p>The role archive records a channel: directory= of the recording, aeron= of the driver, channel=, sync= (fileSyncLevel and
 * catalogFileSyncLevel), segment_mib=, threads=shared|dedicated. The role publisher sends: aeron=, channel=, size=, archive= (directory of
 * the archive's driver, whose counter of the recorded position it reads, as both are on one machine: an application that learns it from the
 * archive by a message does so later). Requests: send rate= duration=; end.
 */
public final class ArchivePeer {
    private static final int STREAM = 1001;
    private static final int RING = 1 << 20;
    private static final int BATCH = 16;
    private static final long PATIENCE_NS = 30_000_000_000L;

    private ArchivePeer() {
    }

    private static Map<String, String> words(final String[] parts, final int from) {
        final Map<String, String> found = new HashMap<>();
        for (int i = from; i < parts.length; i++) {
            final int at = parts[i].indexOf('=');
            found.put(parts[i].substring(0, at), parts[i].substring(at + 1));
        }
        return found;
    }

    private static void answer(final String json) {
        System.out.println(json);
        System.out.flush();
    }

    /** Resident memory in MiB, the maximum. */
    private static double residentMib() throws IOException {
        try (BufferedReader status = new BufferedReader(new java.io.FileReader("/proc/self/status"))) {
            for (String line = status.readLine(); line != null; line = status.readLine()) {
                if (line.startsWith("VmHWM:")) {
                    return Double.parseDouble(line.replaceAll("[^0-9]", "")) / 1024;
                }
            }
        }
        return 0;
    }

    private static void archive(final Map<String, String> words) throws IOException {
        final boolean shared = !"dedicated".equals(words.get("threads"));
        final int sync = Integer.parseInt(words.get("sync"));
        final String aeron = words.get("aeron");
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(aeron)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .spiesSimulateConnection(false)
            .threadingMode(shared ? ThreadingMode.SHARED : ThreadingMode.DEDICATED);
        final Archive.Context context = new Archive.Context()
            .aeronDirectoryName(aeron)
            .archiveDir(new File(words.get("directory")))
            .deleteArchiveOnStart(true)
            .fileSyncLevel(sync)
            .catalogFileSyncLevel(sync)
            .segmentFileLength(Integer.parseInt(words.get("segment_mib")) << 20)
            .recordingEventsEnabled(false)
            .controlChannelEnabled(false)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel("aeron:udp?endpoint=localhost:0"))
            .replicationChannel("aeron:udp?endpoint=localhost:0")
            .threadingMode(shared ? ArchiveThreadingMode.SHARED : ArchiveThreadingMode.DEDICATED);
        final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try (ArchivingMediaDriver archiving = ArchivingMediaDriver.launch(driver, context);
            AeronArchive client = AeronArchive.connect(new AeronArchive.Context()
                .aeronDirectoryName(aeron)
                .controlRequestChannel(context.localControlChannel())
                .controlRequestStreamId(context.localControlStreamId())
                .controlResponseChannel("aeron:ipc"))) {
            client.startRecording(words.get("channel"), STREAM, SourceLocation.REMOTE);
            answer("{\"ready\": 1}");
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                answer("{\"rss_mib\": " + residentMib() + "}");
            }
        }
    }

    /** Counts times in the buckets of bench/engine/histogram.h. */
    private static final class Times {
        private final TreeMap<Long, Integer> counts = new TreeMap<>();
        private final int[] buckets = new int[27 * 1024];
        private long max;

        void add(final long ns) {
            final int shift = ns < 2048 ? 0 : 53 - Long.numberOfLeadingZeros(ns);
            final int index = ns < 2048 ? (int)ns : shift >= 26 ? buckets.length - 1 : shift * 1024 + (int)(ns >> shift);
            buckets[index]++;
            max = Math.max(max, ns);
        }

        String json() {
            final StringBuilder text = new StringBuilder("{\"counts\": [");
            String comma = "";
            for (int index = 0; index < buckets.length; index++) {
                if (buckets[index] > 0) {
                    final int shift = index < 2048 ? 0 : index / 1024 - 1;
                    text.append(comma).append(((long)(index - shift * 1024 + 1) << shift) - 1).append(", ").append(buckets[index]);
                    comma = ", ";
                }
            }
            return text.append("], \"max\": ").append(max).append(", \"trace\": []}").toString();
        }
    }

    /** One thread drives the driver, the client and the sending. */
    private static final class Publisher implements AutoCloseable {
        private final MediaDriver driver;
        private final Aeron aeron;
        private final Aeron archive;
        private final AgentInvoker driverInvoker;
        private final ExclusivePublication publication;
        private final UnsafeBuffer message;
        private final long[] positions = new long[RING];
        private final long[] due = new long[RING];
        private int counter = -1;
        private long sent;
        private long recorded;
        private Times times = new Times();

        Publisher(final Map<String, String> words) {
            driver = MediaDriver.launch(new MediaDriver.Context()
                .aeronDirectoryName(words.get("aeron"))
                .dirDeleteOnStart(true)
                .dirDeleteOnShutdown(true)
                .threadingMode(ThreadingMode.INVOKER));
            driverInvoker = driver.sharedAgentInvoker();
            aeron = Aeron.connect(new Aeron.Context()
                .aeronDirectoryName(words.get("aeron"))
                .driverAgentInvoker(driverInvoker)
                .useConductorAgentInvoker(true));
            archive = Aeron.connect(new Aeron.Context()
                .aeronDirectoryName(words.get("archive"))
                .useConductorAgentInvoker(true));
            publication = aeron.addExclusivePublication(words.get("channel"), STREAM);
            message = new UnsafeBuffer(ByteBuffer.allocateDirect(Integer.parseInt(words.get("size"))));
        }

        void turn() {
            driverInvoker.invoke();
            aeron.conductorAgentInvoker().invoke();
            archive.conductorAgentInvoker().invoke();
        }

        /** Waits until the archive records. */
        void await() {
            final long until = System.nanoTime() + PATIENCE_NS;
            final CountersReader counters = archive.countersReader();
            while (counter < 0) {
                turn();
                if (publication.isConnected()) {
                    counter = RecordingPos.findCounterIdBySession(counters, publication.sessionId());
                }
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("the archive does not record");
                }
            }
        }

        /** Counts what was recorded meanwhile. */
        void hear(final long now) {
            final long position = archive.countersReader().getCounterValue(counter);
            while (recorded < sent && positions[(int)(recorded % RING)] <= position) {
                final long at = due[(int)(recorded++ % RING)];
                if (at != 0) {
                    times.add(now - at);
                }
            }
        }

        boolean offer(final long dueAt) {
            message.putLong(0, dueAt);
            message.putLong(8, sent);
            final long position = publication.offer(message);
            if (position <= 0 || sent - recorded >= RING - 1) {
                return false;
            }
            positions[(int)(sent % RING)] = position;
            due[(int)(sent++ % RING)] = dueAt;
            return true;
        }

        String send(final long rate, final long durationNs) {
            final long begin = System.nanoTime(), before = sent;
            long next = begin, now = begin;
            times = new Times();
            for (; now < begin + durationNs || (rate > 0 && next < begin + durationNs); now = System.nanoTime()) {
                for (int i = 0; i < BATCH && (rate == 0 || next <= now); i++) {
                    if (!offer(rate == 0 ? 0 : next)) {
                        break;
                    }
                    next += rate == 0 ? 0 : 1_000_000_000L / rate;
                }
                turn();
                hear(System.nanoTime());
            }
            final long took = now - begin;
            while (recorded < sent && System.nanoTime() < now + PATIENCE_NS) {
                turn();
                hear(System.nanoTime());
            }
            final long settled = System.nanoTime() - begin;
            return "{\"msgs_per_s\": " + (sent - before) * 1e9 / took + ", \"recorded_per_s\": " + (sent - before) * 1e9 / settled
                + ", \"sent\": " + sent + ", \"lost\": " + (sent - recorded) + ", \"acknowledged\": " + times.json() + "}";
        }

        public void close() {
            publication.close();
            turn();
            archive.close();
            aeron.close();
            driver.close();
        }
    }

    private static void publisher(final Map<String, String> words) throws IOException {
        final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try (Publisher publisher = new Publisher(words)) {
            publisher.await();
            answer("{\"ready\": 1}");
            for (;;) {
                while (!input.ready()) {
                    publisher.turn();
                }
                final String line = input.readLine();
                if (line == null || line.startsWith("end")) {
                    return;
                }
                final Map<String, String> request = words(line.split(" "), 1);
                answer(publisher.send(Long.parseLong(request.get("rate")), (long)(Double.parseDouble(request.get("duration")) * 1e9)));
            }
        }
    }

    public static void main(final String[] arguments) throws IOException {
        final Map<String, String> words = words(arguments, 1);
        if ("archive".equals(arguments[0])) {
            archive(words);
        } else {
            publisher(words);
        }
    }
}
