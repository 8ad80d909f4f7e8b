internal import CChaparPostgres

/// The rows that a statement returned; used only on the connection's thread.
struct PostgresRows: ~Copyable {
    private let result: OpaquePointer

    /// Takes over a result of libpq.
    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    /// The number of rows.
    var count: Int { Int(PQntuples(result)) }

    /// The number of rows that the statement changed.
    var changed: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }

    /// Returns an integer of two, four or eight bytes; nil for null.
    func integer(_ row: Int, _ column: Int) -> Int64? {
        with(row, column) { bytes in
            switch bytes.count {
            case 2: Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
            case 4: Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
            case 8: Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
            default: nil
            }
        }
    }

    /// Returns the integers of a column, without nulls.
    func integers(_ column: Int = 0) -> [Int64] {
        var found: [Int64] = []
        for row in 0..<count { if let number = integer(row, column) { found.append(number) } }
        return found
    }

    func bool(_ row: Int, _ column: Int) -> Bool { with(row, column) { $0.first == 1 } ?? false }
    func text(_ row: Int, _ column: Int) -> String? { with(row, column) { String(decoding: $0, as: UTF8.self) } }
    func bytes(_ row: Int, _ column: Int) -> [UInt8]? { with(row, column) { Array($0) } }

    /// Returns an array of byte strings without nulls; empty for null.
    func byteArrays(_ row: Int, _ column: Int) -> [[UInt8]] {
        with(row, column) { bytes in
            func number(_ place: Int) -> Int {
                Int(Int32(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: Int32.self)))
            }
            // The header of an array of one dimension (``PostgresValue``).
            guard bytes.count >= 20, number(0) == 1 else { return [] }
            var elements: [[UInt8]] = []
            var place = 20
            for _ in 0..<max(0, number(12)) {
                guard place + 4 <= bytes.count else { break }
                let length = max(0, number(place))
                guard length <= bytes.count - place - 4 else { break }
                elements.append(Array(bytes[place + 4..<place + 4 + length]))
                place += 4 + length
            }
            return elements
        } ?? []
    }

    private func with<Value>(_ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) -> Value?) -> Value? {
        guard row < count, PQgetisnull(result, Int32(clamping: row), Int32(clamping: column)) == 0,
            let start = PQgetvalue(result, Int32(clamping: row), Int32(clamping: column))
        else { return nil }
        return body(
            UnsafeRawBufferPointer(
                start: start,
                count: Int(PQgetlength(result, Int32(clamping: row), Int32(clamping: column)))
            )
        )
    }
}
