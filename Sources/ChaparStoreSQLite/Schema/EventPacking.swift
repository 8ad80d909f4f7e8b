/// The form in which the events of a commit share one row.
///
/// Events of one kind differ in a few digits only, so an event is stored as its difference from an earlier one of the
/// same length in the row, if there is one. That keeps most of their bytes out of the log and the file, and costs one
/// comparison. A row begins with ``marker``. Each event has its length, then the distance, in events, to the earlier
/// one, or 0 and all of its bytes. After a distance, runs alternate until the length is reached: the number of equal
/// bytes, the number of different ones, and the different bytes. Numbers have seven bits to a byte, the lowest first.
///
/// Rows without the marker are of the first form: each event with its length in four bytes before it.
enum EventPacking {
    /// The four bytes that no row of the first form begins with: as a length they would be four gigabytes.
    private static let marker: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF]
    /// The number of equal bytes that ends a run of different ones.
    private static let shortestMatch = 4

    static func pack(_ events: [[UInt8]]) -> [UInt8] {
        // A run of equal bytes takes at most as much room as it saves, except for the first.
        let capacity = marker.count + events.reduce(0) { $0 + $1.count + $1.count / 2 + 32 }
        return [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            var output = Output(buffer)
            marker.withUnsafeBufferPointer { output.append($0[...]) }
            var newest = [Int](repeating: -1, count: 256)
            for index in events.indices {
                let length = events[index].count
                let other = newest[length & 255]
                newest[length & 255] = index
                output.append(number: length)
                events[index].withUnsafeBufferPointer { event in
                    guard other >= 0, events[other].count == length else {
                        output.append(number: 0)
                        output.append(event[...])
                        return
                    }
                    output.append(number: index - other)
                    events[other].withUnsafeBufferPointer { appendDifference(of: event, from: $0, to: &output) }
                }
            }
            count = output.count
        }
    }

    private static func appendDifference(
        of event: UnsafeBufferPointer<UInt8>,
        from other: UnsafeBufferPointer<UInt8>,
        to output: inout Output
    ) {
        var index = 0
        while index < event.count {
            let same = equalBytes(event, other, from: index)
            output.append(number: same)
            index += same
            guard index < event.count else { return }
            let start = index
            repeat { index += 1 } while index < event.count && !matches(event, other, at: index)
            output.append(number: index - start)
            output.append(event[start..<index])
        }
    }

    /// Returns how many bytes are equal, from a place on.
    private static func equalBytes(
        _ event: UnsafeBufferPointer<UInt8>,
        _ other: UnsafeBufferPointer<UInt8>,
        from start: Int
    ) -> Int {
        var index = start
        let (left, right) = (UnsafeRawBufferPointer(event), UnsafeRawBufferPointer(other))
        while index + 8 <= event.count,
            left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                == right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        { index += 8 }
        while index < event.count, event[index] == other[index] { index += 1 }
        return index - start
    }

    /// Whether enough bytes are equal at a place to end a run of different ones.
    private static func matches(
        _ event: UnsafeBufferPointer<UInt8>,
        _ other: UnsafeBufferPointer<UInt8>,
        at index: Int
    ) -> Bool {
        guard event[index] == other[index], index + shortestMatch <= event.count else { return false }
        return UnsafeRawBufferPointer(event).loadUnaligned(fromByteOffset: index, as: UInt32.self)
            == UnsafeRawBufferPointer(other).loadUnaligned(fromByteOffset: index, as: UInt32.self)
    }

    /// Returns the events of a row; those before the damage when it is torn or damaged.
    static func unpack(_ bytes: [UInt8]) -> [[UInt8]] { unpackAll(bytes).events }

    /// Returns the events of a row, and whether these are all that it holds.
    static func unpackAll(_ bytes: [UInt8]) -> (events: [[UInt8]], isWhole: Bool) {
        guard bytes.starts(with: marker) else { return unpackFirstForm(bytes) }
        var events: [[UInt8]] = []
        var input = bytes[marker.count...]
        while !input.isEmpty {
            guard let length = number(&input), let distance = number(&input), distance <= events.count else {
                return (events, false)
            }
            let other = distance == 0 ? [] : events[events.count - distance]
            guard let event = event(length, from: other, &input) else { return (events, false) }
            events.append(event)
        }
        return (events, true)
    }

    /// Returns an event from its runs; nil when the row is torn or damaged.
    private static func event(_ length: Int, from other: [UInt8], _ input: inout ArraySlice<UInt8>) -> [UInt8]? {
        guard !other.isEmpty else {
            guard length <= input.count else { return nil }
            defer { input = input.dropFirst(length) }
            return Array(input.prefix(length))
        }
        guard other.count == length else { return nil }
        var event = other
        var index = 0
        while index < length {
            guard let same = number(&input), same <= length - index else { return nil }
            index += same
            guard index < length else { break }
            guard let different = number(&input), different > 0, different <= min(length - index, input.count) else {
                return nil
            }
            event.replaceSubrange(index..<index + different, with: input.prefix(different))
            input = input.dropFirst(different)
            index += different
        }
        return event
    }

    /// Reads a number from the front; nil when there is none.
    private static func number(_ input: inout ArraySlice<UInt8>) -> Int? {
        var value = 0
        for shift in stride(from: 0, to: 35, by: 7) {
            guard let byte = input.popFirst() else { return nil }
            value |= Int(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        return nil
    }

    private static func unpackFirstForm(_ bytes: [UInt8]) -> (events: [[UInt8]], isWhole: Bool) {
        var events: [[UInt8]] = []
        var index = 0
        while index + 4 <= bytes.count {
            let length = (0..<4).reduce(0) { $0 | Int(bytes[index + $1]) << (8 * $1) }
            index += 4
            guard length <= bytes.count - index else { return (events, false) }
            events.append(Array(bytes[index..<index + length]))
            index += length
        }
        return (events, index == bytes.count)
    }

    /// A buffer that is filled from the front.
    private struct Output {
        private let buffer: UnsafeMutableBufferPointer<UInt8>
        private(set) var count = 0

        init(_ buffer: UnsafeMutableBufferPointer<UInt8>) { self.buffer = buffer }

        mutating func append(number: Int) {
            var rest = number
            while rest >= 0x80 {
                buffer[count] = UInt8(truncatingIfNeeded: rest) | 0x80
                count += 1
                rest >>= 7
            }
            buffer[count] = UInt8(truncatingIfNeeded: rest)
            count += 1
        }

        mutating func append(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) {
            let end = buffer[count...].update(fromContentsOf: bytes)
            count = end
        }
    }
}
