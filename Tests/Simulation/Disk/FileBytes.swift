import Glibc

/// The bytes of a file, in one piece of memory that grows.
///
/// Its capacity is a whole number of words, and bytes between `count` and the end of the last word are zero, so that a
/// hash can go word by word.
final class FileBytes {
    private(set) var count = 0
    private var base: UnsafeMutableRawPointer?
    private var capacity = 0

    init() {}

    deinit { free(base) }

    /// Writes bytes; a gap before them reads as zeros.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard let source = bytes.baseAddress, !bytes.isEmpty else { return }
        if offset + bytes.count > count { resize(to: offset + bytes.count) }
        guard let base else { return }
        memcpy(base + offset, source, bytes.count)
    }

    /// Fills `target` from `offset` on, with zeros after the end; returns how many bytes were there.
    func read(into target: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
        let found = max(0, min(target.count, count - offset))
        if found > 0, let base, let start = target.baseAddress { memcpy(start, base + offset, found) }
        if found < target.count, let start = target.baseAddress { memset(start + found, 0, target.count - found) }
        return found
    }

    /// Cuts the file, or lengthens it with zeros.
    func resize(to length: Int) {
        if length > capacity {
            // A word at least, so that there is always memory once something was written.
            let wanted = max(length, capacity * 2, 4_096)
            let bytes = (wanted + 7) & ~7
            guard let larger = realloc(base, bytes) else { fatalError("no memory for \(bytes) bytes of a file") }
            base = larger
            capacity = bytes
            memset(larger + count, 0, bytes - count)
        } else if length < count, let base {
            memset(base + length, 0, count - length)
        }
        count = length
    }

    /// Takes over what another has.
    func copy(_ other: FileBytes) {
        resize(to: 0)
        if let start = other.base { write(UnsafeRawBufferPointer(start: start, count: other.count), at: 0) }
    }

    /// A part of the bytes, good until the next change.
    func slice(_ offset: Int, _ length: Int) -> UnsafeRawBufferPointer {
        guard let base, length > 0 else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(start: base + offset, count: length)
    }

    var array: [UInt8] { Array(slice(0, count)) }

    /// Adds the number of the bytes and the bytes to a hash, a word at a time.
    func add(to hash: inout FNV1a) {
        hash.add(UInt64(count))
        guard let base else { return }
        let words = base.assumingMemoryBound(to: UInt64.self)
        var index = 0
        let end = (count + 7) / 8
        while index < end {
            hash.add(words[index])
            index += 1
        }
    }
}
