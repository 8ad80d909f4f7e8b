import CChaparNghttp2
import ChaparCore

/// Builds the header fields of requests on one connection without allocating for each.
///
/// The memory behind the fields stays until `reset`, which the session calls when the codec has framed them.
final class RequestFields {
    /// The most templates whose fields are cached; beyond that the whole cache is discarded.
    private static let maximumBlocks = 64

    private let scheme: String
    private let authority: String
    private var extra: [HTTPHeader] = []
    private var blocks: [ObjectIdentifier: (template: HTTPCallTemplate, block: HeaderBlock?)] = [:]
    private var latest: (template: HTTPCallTemplate, block: HeaderBlock?)?
    /// The blocks that were replaced while the codec may still point into them.
    private var retired: [HeaderBlock] = []
    private let arena = FieldArena()
    private var fields: UnsafeMutablePointer<nghttp2_nv>
    private var capacity = 64
    private(set) var count = 0

    init(scheme: String, authority: String) {
        self.scheme = scheme
        self.authority = authority
        fields = .allocate(capacity: capacity)
    }

    deinit { fields.deallocate() }

    /// Replaces the fields that every call of this connection carries.
    func setExtra(_ headers: [HTTPHeader]) {
        guard headers != extra else { return }
        extra = headers
        forgetBlocks()
    }

    /// Returns the fields of a call, as many as `count`, valid until `reset`; nil when HTTP forbids one of them.
    func make(_ call: HTTPCall) -> UnsafePointer<nghttp2_nv>? {
        guard let block = block(for: call.template) else { return nil }
        let path = arena.copy(call.path)
        guard path.first == UInt8(ascii: "/"), nghttp2_check_path(path.baseAddress, path.count) != 0 else { return nil }
        count = block.fields.count + call.headers.count
        reserve(count)
        block.fields.withUnsafeBufferPointer { source in
            if let base = source.baseAddress { fields.update(from: base, count: source.count) }
        }
        fields[HeaderBlock.pathIndex].value = path.baseAddress
        fields[HeaderBlock.pathIndex].valuelen = path.count
        var index = block.fields.count
        for header in call.headers {
            guard let field = header.field(in: arena) else { return nil }
            fields[index] = field
            index += 1
        }
        return UnsafePointer(fields)
    }

    /// Frees the memory of the fields, after the codec has framed every request made so far.
    func reset() {
        arena.reset()
        if !retired.isEmpty { retired.removeAll() }
    }

    private func block(for template: HTTPCallTemplate) -> HeaderBlock? {
        if let latest, latest.template === template { return latest.block }
        if let known = blocks[ObjectIdentifier(template)] {
            latest = known
            return known.block
        }
        if blocks.count == Self.maximumBlocks { forgetBlocks() }
        let made = HeaderBlock(template, scheme: scheme, authority: authority, extra: extra)
        blocks[ObjectIdentifier(template)] = (template, made)
        latest = (template, made)
        return made
    }

    private func forgetBlocks() {
        retired += blocks.values.compactMap(\.block)
        blocks.removeAll()
        latest = nil
    }

    private func reserve(_ needed: Int) {
        guard needed > capacity else { return }
        while capacity < needed { capacity *= 2 }
        fields.deallocate()
        fields = .allocate(capacity: capacity)
    }
}
