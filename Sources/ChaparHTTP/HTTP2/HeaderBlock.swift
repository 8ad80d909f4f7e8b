import CChaparNghttp2
import ChaparCore

/// The flags of fields whose bytes stay in place until the frame has been made.
private let inPlace = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)
private let inPlaceLiteral = inPlace | UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)

/// Memory for the bytes of header fields, at fixed addresses until `reset`.
///
/// It is a class, so that its counters need no exclusivity checks on the path of a call's fields.
final class FieldArena {
    private static let blockSize = 32 * 1024

    private var blocks: [UnsafeMutableRawBufferPointer] = []
    /// The number of blocks in use; the last of them has `left` bytes free from `next` on.
    private var used = 0
    private var next: UnsafeMutablePointer<UInt8>?
    private var left = 0

    deinit {
        for block in blocks { block.deallocate() }
    }

    /// Allocates `count` bytes.
    func allocate(_ count: Int) -> UnsafeMutablePointer<UInt8> {
        if let start = next, left >= count {
            next = start + count
            left -= count
            return start
        }
        return allocateElsewhere(count)
    }

    private func allocateElsewhere(_ count: Int) -> UnsafeMutablePointer<UInt8> {
        while used < blocks.count, blocks[used].count < count { used += 1 }
        if used == blocks.count {
            blocks.append(.allocate(byteCount: max(count, Self.blockSize), alignment: 16))
        }
        let block = blocks[used]
        used += 1
        // Blocks are never empty, so they have a base address.
        let start = block.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self)
        next = start + count
        left = block.count - count
        return start
    }

    /// Copies the UTF-8 bytes of a string.
    func copy(_ text: String) -> UnsafeMutableBufferPointer<UInt8> {
        let count = text.utf8.count
        let target = allocate(count)
        let isDone: Void? = text.utf8.withContiguousStorageIfAvailable { source in
            if let base = source.baseAddress { target.update(from: base, count: count) }
        }
        if isDone == nil {
            for (index, byte) in text.utf8.enumerated() { target[index] = byte }
        }
        return UnsafeMutableBufferPointer(start: target, count: count)
    }

    /// Frees the memory for reuse; blocks beyond the eighth are deallocated.
    func reset() {
        while blocks.count > 8 { blocks.removeLast().deallocate() }
        (used, next, left) = (0, nil, 0)
    }
}

extension HTTPHeader {
    /// Returns the field for the codec; nil when HTTP forbids its name or value.
    func field(in arena: FieldArena) -> nghttp2_nv? {
        let name = arena.copy(name)
        let value = arena.copy(value)
        guard nghttp2_check_header_name(name.baseAddress, name.count) != 0,
            nghttp2_check_header_value(value.baseAddress, value.count) != 0
        else { return nil }
        return nghttp2_nv(
            name: name.baseAddress,
            value: value.baseAddress,
            namelen: name.count,
            valuelen: value.count,
            flags: indexing == .literal ? inPlaceLiteral : inPlace
        )
    }
}

/// The fields that all calls of one template have on one connection, in the codec's form.
final class HeaderBlock {
    /// The index of `:path`, whose value each call sets.
    static let pathIndex = 3

    let fields: [nghttp2_nv]
    private let arena = FieldArena()

    /// Makes the block; nil when HTTP forbids a name or value.
    init?(_ template: HTTPCallTemplate, scheme: String, authority: String, extra: [HTTPHeader]) {
        var fields: [nghttp2_nv] = []
        let pseudo = [(":method", template.method), (":scheme", scheme), (":authority", authority), (":path", "/")]
        for (name, value) in pseudo {
            let name = arena.copy(name)
            let value = arena.copy(value)
            fields.append(
                nghttp2_nv(
                    name: name.baseAddress,
                    value: value.baseAddress,
                    namelen: name.count,
                    valuelen: value.count,
                    flags: inPlace
                )
            )
        }
        var isValid = template.method.utf8.allSatisfy { (65...90).contains($0) }
        for header in extra + template.headers {
            guard let field = header.field(in: arena) else {
                isValid = false
                break
            }
            fields.append(field)
        }
        self.fields = fields
        if !isValid { return nil }
    }
}
