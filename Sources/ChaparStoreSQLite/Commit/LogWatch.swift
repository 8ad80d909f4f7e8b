import Foundation
import ChaparCore

/// Checks, by a few of its bytes, that the write-ahead log is still the one that the writer uses.
///
/// SQLite does not notice when something else removes its log, cuts it or writes over it: it goes on in a file without
/// a name, or behind a hole, and what it commits is lost at the end. ``DiskGuard`` checks once a second.
///
/// A checkpoint leaves a log as it is, makes it shorter (`journal_size_limit`) or empties it (`TRUNCATE`, also another
/// program's); the next commit begins it anew, with other salts in its header. So an empty log proves nothing until
/// something was committed.
struct LogWatch {
    /// The result of a check.
    enum Finding {
        /// It continues as it was, or there was none yet.
        case whole
        /// It was emptied: by a checkpoint, or by something else.
        case empty
        /// Its name refers to no file any more, or to another one.
        case gone
        /// Its content is gone, though no checkpoint had begun it anew.
        case cut
    }

    private static let headerBytes: Int64 = 32
    private static let frameHeaderBytes: Int64 = 24

    private let path: String
    /// The number of bytes that a checkpoint leaves of a longer log.
    private let keptBytes: Int64
    private var file: (device: dev_t, number: ino_t)?
    private var bytes: Int64 = 0
    private var header: [UInt8] = []
    /// The place of a frame at the last check: a later frame may be there now, but no hole.
    private var frame: Int64?
    private(set) var finding = Finding.whole

    /// Starts with the log as it is.
    init(_ path: String, keptBytes: Int64) {
        (self.path, self.keptBytes) = (path, keptBytes)
        look()
    }

    mutating func look() {
        var status = stat()
        let exists = stat(path, &status) == 0
        if let file {
            guard exists, status.st_dev == file.device, status.st_ino == file.number else { return finding = .gone }
        } else {
            guard exists else { return }
            file = (status.st_dev, status.st_ino)
        }
        judge(Int64(clamping: status.st_size))
    }

    private mutating func judge(_ seen: Int64) {
        guard seen >= Self.headerBytes else {
            finding = bytes >= Self.headerBytes ? .empty : .whole
            return
        }
        // Closing this descriptor drops no lock: SQLite has its locks on the other files.
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        // A log that cannot be read, or was just emptied, is left to the next check.
        guard let now = Self.read(descriptor, Int(Self.headerBytes), at: 0) else { return }
        // The size is read after the header: a log that is begun anew meanwhile does not get the size of the one
        // before.
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return }
        let size = Int64(clamping: status.st_size)
        guard now[0] == 0x37, now[1] == 0x7F, now[2] == 0x06, now[3] & 0xFE == 0x82 else { return finding = .cut }
        if now == header {
            guard size >= min(bytes, keptBytes) else { return finding = .cut }
            if let frame, let number = Self.read(descriptor, 4, at: frame), number.allSatisfy({ $0 == 0 }) {
                return finding = .cut
            }
        }
        (finding, header, bytes) = (.whole, now, size)
        let page = now[8..<12].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let frameBytes = page.adding(clamping: Self.frameHeaderBytes)
        let frames = size.subtracting(clamping: Self.headerBytes) / frameBytes
        let place = frames.subtracting(clamping: 1).multiplied(clamping: frameBytes)
        let last = place.adding(clamping: Self.headerBytes)
        // After a loss of power zeros may follow what was committed.
        let isFrame = frames > 0 && (Self.read(descriptor, 4, at: last)?.contains { $0 != 0 } ?? false)
        frame = isFrame ? last : nil
    }

    /// Reads bytes at a place; nil unless all of them are there.
    private static func read(_ descriptor: Int32, _ count: Int, at place: Int64) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return pread(descriptor, &bytes, count, off_t(clamping: place)) == count ? bytes : nil
    }
}
