/// The packing of numbers and texts in blobs of this store.
extension [UInt8] {
    /// Appends a number in eight bytes, the lowest first.
    mutating func pack(_ number: Int64) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }

    /// Appends numbers at once, each as ``pack(_:)`` does.
    mutating func pack<let count: Int>(_ numbers: [count of Int64]) {
        var numbers = numbers
        for index in numbers.indices { numbers[index] = numbers[index].littleEndian }
        Swift.withUnsafeBytes(of: numbers) { append(contentsOf: $0) }
    }
}

extension ArraySlice<UInt8> {
    /// Reads a number that ``Swift/Array/pack(_:)`` appended; nil when too few bytes are left.
    mutating func unpackNumber() -> Int64? {
        guard count >= 8 else { return nil }
        defer { self = dropFirst(8) }
        return prefix(8).reversed().reduce(0) { $0 << 8 | Int64($1) }
    }

    /// Reads `length` bytes; nil when there are fewer.
    mutating func unpackText(_ length: Int64) -> [UInt8]? {
        guard length >= 0, length <= Int64(count) else { return nil }
        defer { self = dropFirst(Int(length)) }
        return Array(prefix(Int(length)))
    }
}
