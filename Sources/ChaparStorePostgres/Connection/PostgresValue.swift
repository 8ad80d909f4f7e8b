/// A parameter of a statement, sent to the server in PostgreSQL's binary form.
enum PostgresValue: Sendable {
    case integer(Int64?)
    case bool(Bool)
    case text(String?)
    case bytes([UInt8]?)
    /// Arrays, so that one statement carries many rows.
    case integers([Int64?])
    case bools([Bool])
    case texts([String?])
    case byteArrays([[UInt8]?])

    static func integer(_ number: Int) -> PostgresValue { .integer(Int64(number)) }

    var type: PostgresType {
        switch self {
        case .integer: .integer
        case .bool: .bool
        case .text: .text
        case .bytes: .bytes
        case .integers: .integers
        case .bools: .bools
        case .texts: .texts
        case .byteArrays: .byteArrays
        }
    }

    /// Encodes parameters one after the other; the pointers (nil for null) and lengths are valid within `body`.
    static func encode<Result>(
        _ values: [PostgresValue],
        _ body: ([UnsafePointer<CChar>?], [Int32]) -> Result
    ) -> Result {
        var block: [UInt8] = []
        var spans: [Range<Int>?] = []
        for value in values {
            let start = block.count
            spans.append(value.append(to: &block) ? start..<block.count : nil)
        }
        block.append(0)
        return block.withUnsafeBytes { bytes in
            let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            let pointers = spans.map { span in span.flatMap { span in start.map { $0 + span.lowerBound } } }
            return body(pointers, spans.map { Int32(clamping: $0?.count ?? 0) })
        }
    }

    /// Calls `body` with strings for C, in a list that ends with nil.
    static func withCStrings<Result>(_ texts: [String], _ body: ([UnsafePointer<CChar>?]) -> Result) -> Result {
        encode(texts.map { .text($0 + "\0") }) { pointers, _ in body(pointers + [nil]) }
    }

    /// Appends the value's bytes; returns false for null, which has none.
    private func append(to block: inout [UInt8]) -> Bool {
        switch self {
        case .integer(let number?): Self.append(number, to: &block)
        case .bool(let value): block.append(value ? 1 : 0)
        case .text(let text?): block += text.utf8
        case .bytes(let bytes?): block += bytes
        case .integer, .text, .bytes: return false
        case .integers(let numbers):
            Self.append(numbers, .integer, to: &block) { number, block in
                guard let number else { return false }
                Self.append(number, to: &block)
                return true
            }
        case .bools(let values):
            Self.append(values, .bool, to: &block) { value, block in
                block.append(value ? 1 : 0)
                return true
            }
        case .texts(let texts):
            Self.append(texts, .text, to: &block) { text, block in
                guard let text else { return false }
                block += text.utf8
                return true
            }
        case .byteArrays(let arrays):
            Self.append(arrays, .bytes, to: &block) { bytes, block in
                guard let bytes else { return false }
                block += bytes
                return true
            }
        }
        return true
    }

    private static func append(_ number: some FixedWidthInteger, to block: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { block.append(contentsOf: $0) }
    }

    /// Appends an array of one dimension: its header (dimensions, whether there are nulls, the type, the length, the
    /// first index), then each element after its length, which is -1 for null.
    private static func append<Element>(
        _ elements: [Element],
        _ type: PostgresType,
        to block: inout [UInt8],
        _ append: (Element, inout [UInt8]) -> Bool
    ) {
        Self.append(elements.isEmpty ? Int32(0) : 1, to: &block)
        Self.append(Int32(1), to: &block)
        Self.append(type.rawValue, to: &block)
        guard !elements.isEmpty else { return }
        Self.append(Int32(clamping: elements.count), to: &block)
        Self.append(Int32(1), to: &block)
        for element in elements {
            let place = block.count
            Self.append(Int32(-1), to: &block)
            guard append(element, &block) else { continue }
            let length = Int32(clamping: block.count - place - 4)
            withUnsafeBytes(of: length.bigEndian) { bytes in
                for (offset, byte) in bytes.enumerated() { block[place + offset] = byte }
            }
        }
    }
}

/// The types in the store's statements, by their number in `pg_type`.
enum PostgresType: UInt32, Sendable {
    case bool = 16
    case bytes = 17
    case integer = 20
    case text = 25
    case bools = 1_000
    case byteArrays = 1_001
    case texts = 1_009
    case integers = 1_016
}
