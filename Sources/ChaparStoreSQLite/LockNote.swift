internal import Foundation
import ChaparCore
package import ChaparQueue

/// The content of a store's lock file, in lines.
///
///     4711
///     running since 2026-11-26T19:40:00.000Z
///     broken off: 4242 since 2026-11-25T08:00:00.000Z
///     committed: 90210
///
/// The lines are: the process that has or had the lock; the start of the run, while a gateway runs; the process and the
/// start of a run that did not end in order, until a later run that took requests has ended; the number of a committed
/// event, which a later start must find. Older versions write and read the first line alone.
struct LockNote: Sendable {
    private static let running = "running since "
    private static let brokenOff = "broken off: "
    private static let committed = "committed: "
    /// The most bytes of a note.
    private static let largestFile = 256

    var process: Int32?
    var runSince: Date?
    var broken: BrokenRun?
    /// The number of a committed event; nil when none is known.
    var committed: Int64?

    init(process: Int32?, runSince: Date?, broken: BrokenRun?, committed: Int64? = nil) {
        (self.process, self.runSince, self.broken, self.committed) = (process, runSince, broken, committed)
    }

    /// Reads a note; a part that is missing or cannot be read is nil.
    init(in descriptor: Int32) {
        var bytes = [UInt8](repeating: 0, count: Self.largestFile)
        let length = pread(descriptor, &bytes, bytes.count, 0)
        let lines = String(decoding: bytes.prefix(max(0, length)), as: UTF8.self).split(separator: "\n")
        process = lines.first.flatMap { Int32($0) }
        for line in lines.dropFirst() {
            if line.hasPrefix(Self.running) {
                runSince = RFC3339.parse(String(line.dropFirst(Self.running.count)))
            } else if line.hasPrefix(Self.committed) {
                committed = Int64(line.dropFirst(Self.committed.count)).map { max(0, $0) }
            } else if line.hasPrefix(Self.brokenOff) {
                let parts = line.dropFirst(Self.brokenOff.count).split(separator: " ")
                if let process = parts.first.flatMap({ Int32($0) }),
                    let since = parts.last.flatMap({ RFC3339.parse(String($0)) })
                {
                    broken = BrokenRun(process: process, since: since)
                }
            }
        }
    }

    /// The run that did not end in order, as the next owner of the lock finds it.
    var unendedRun: BrokenRun? {
        runSince.map { BrokenRun(process: process ?? 0, since: $0) } ?? broken
    }

    /// Replaces the note, and makes it survive a loss of power.
    ///
    /// When a note cannot be written, the next gateway does not learn of an end that was not in order; nothing else is
    /// lost.
    ///
    /// With `isLasting` false it survives only a death of the process: a disk that loses it with the power may also
    /// have lost the event.
    func write(to descriptor: Int32, isLasting: Bool = true) {
        var text = process.map { "\($0)\n" } ?? "\n"
        if let runSince { text += "\(Self.running)\(RFC3339.string(runSince))\n" }
        if let broken { text += "\(Self.brokenOff)\(broken.process) since \(RFC3339.string(broken.since))\n" }
        if let committed { text += "\(Self.committed)\(committed)\n" }
        let bytes = Array(text.utf8)
        _ = pwrite(descriptor, bytes, bytes.count, 0)
        _ = ftruncate(descriptor, bytes.count)
        if isLasting { _ = fsync(descriptor) }
    }
}

extension StoreLook {
    /// Returns the last run of a gateway on a store that did not end in order: killed, ended by a fault, or without
    /// power.
    ///
    /// It is known until a later run that took requests has ended in order. A run that still goes on does not count.
    /// Nil without a store, too.
    package static func brokenRun(of path: String) -> BrokenRun? {
        let descriptor = open(path + ".lock", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let note = LockNote(in: descriptor)
        if let process = note.process, note.runSince != nil, hasEnded(process) { return note.unendedRun }
        return note.broken
    }

    /// Whether a process is gone, or does nothing more: a killed one keeps its number until its memory is freed and its
    /// parent has waited for it.
    private static func hasEnded(_ process: Int32) -> Bool {
        func isGone() -> Bool { kill(process, 0) != 0 && errno == ESRCH }
        guard !isGone() else { return true }
        guard let stat = text("/proc/\(process)/stat"), let status = text("/proc/\(process)/status") else {
            return isGone()
        }
        // Fields after the name, which may contain anything: state, 5 numbers, the flags of the task.
        let fields = stat[(stat.lastIndex(of: ")") ?? stat.startIndex)...].split(separator: " ").dropFirst()
        if let state = fields.first, ["Z", "X"].contains(state) { return true }
        if let flags = fields.dropFirst(6).first.flatMap({ UInt64($0) }), flags & exiting != 0 { return true }
        let pending = status.split(separator: "\n").first { $0.hasPrefix("ShdPnd:") }?.split(separator: "\t").last
        return pending.flatMap { UInt64($0, radix: 16) }.map { $0 & 1 << UInt64(SIGKILL - 1) != 0 } ?? false
    }

    /// The kernel's flag of a task that is ending (`PF_EXITING`).
    private static let exiting: UInt64 = 4

    private static func text(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 8_192)
        let length = read(descriptor, &bytes, bytes.count)
        return length > 0 ? String(decoding: bytes.prefix(length), as: UTF8.self) : nil
    }
}
