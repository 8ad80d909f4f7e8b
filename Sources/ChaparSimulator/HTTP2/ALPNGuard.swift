internal import NIOCore

/// Reads the client's hello before TLS does and refuses a client that offers protocols, but not `h2`.
///
/// The TLS library would go on without a protocol; APNs ends with `no_application_protocol`, as RFC 7301 requires.
final class ALPNGuard: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// A fatal alert with code 120, as a TLS record.
    private static let alert: [UInt8] = [21, 3, 3, 0, 2, 2, 120]
    private static let maximumHello = 65536

    private var hello = ByteBuffer()

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        hello.writeBuffer(&bytes)
        switch Self.offer(in: hello) {
        case .incomplete where hello.readableBytes < Self.maximumHello:
            return
        case .without:
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: Self.alert)), promise: nil)
            context.close(promise: nil)
        case .incomplete, .acceptable:
            let held = hello
            hello.clear()
            context.fireChannelRead(wrapInboundOut(held))
            context.fireChannelReadComplete()
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        }
    }

    /// The protocols that a hello offers.
    enum Offer {
        /// The rest of the record is still to come.
        case incomplete
        /// Protocols, none of them `h2`.
        case without
        /// `h2`, or no protocol at all, or a hello that TLS itself must check.
        case acceptable
    }

    /// Looks for the ALPN extension (16) in a TLS record with a client hello (RFC 8446, section 4.1.2).
    static func offer(in record: ByteBuffer) -> Offer {
        var record = record
        guard let type: UInt8 = record.readInteger() else { return .incomplete }
        guard type == 22 else { return .acceptable }
        record.moveReaderIndex(forwardBy: min(2, record.readableBytes))
        guard let length: UInt16 = record.readInteger(), var hello = record.readSlice(length: Int(length)) else {
            return .incomplete
        }
        // Message type and length, version, random.
        guard hello.readSlice(length: 4 + 2 + 32) != nil,
            hello.readLengthPrefixedSlice(as: UInt8.self) != nil,  // session
            hello.readLengthPrefixedSlice(as: UInt16.self) != nil,  // cipher suites
            hello.readLengthPrefixedSlice(as: UInt8.self) != nil,  // compression
            var extensions = hello.readLengthPrefixedSlice(as: UInt16.self)
        else { return .acceptable }
        while let kind: UInt16 = extensions.readInteger(),
            var content = extensions.readLengthPrefixedSlice(as: UInt16.self)
        {
            guard kind == 16, var names = content.readLengthPrefixedSlice(as: UInt16.self) else { continue }
            while let name = names.readLengthPrefixedSlice(as: UInt8.self) {
                if name.readableBytesView.elementsEqual("h2".utf8) { return .acceptable }
            }
            return .without
        }
        return .acceptable
    }
}
