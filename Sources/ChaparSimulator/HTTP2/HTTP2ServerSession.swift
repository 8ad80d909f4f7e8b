internal import CChaparNghttp2
internal import NIOCore
internal import ChaparCore

/// The server's side of one HTTP/2 connection: bytes in, events out, frames on demand.
///
/// libnghttp2 does framing, HPACK and flow control. Everything that a simulator must be able to get wrong is done here:
/// the stream limit is enforced, `GOAWAY` frames are written by hand, pings are acknowledged only on the owner's
/// request. It has no socket and no service; `SandboxHTTP2Connection` owns one and calls it on its event loop.
final class HTTP2ServerSession {
    /// An action of the client.
    enum Event {
        /// The header block of a request is complete; its body may follow.
        case began(HTTP2Stream)
        /// A request is complete.
        case ended(HTTP2Stream)
        /// The client sent a ping.
        case ping(UInt64)
        /// The client opened a stream beyond the limit, which was refused.
        case refused(Int32)
        /// The client reset a stream.
        case reset(Int32, UInt32)
    }

    /// Sent in place of `SETTINGS_MAX_CONCURRENT_STREAMS` (3) and replaced with it on the way out: libnghttp2 would
    /// answer a client that exceeds a limit it knows with a connection error, where APNs refuses only the stream.
    private static let disguisedStreamLimit: UInt16 = 0xFC03
    private static let refusedStream: UInt32 = 7
    /// The number of open streams up to which streams after a `GOAWAY` are ignored; beyond it they are refused.
    private static let maximumIgnoredStreams = 10_000

    /// The most streams the client may have open; enforced from the moment it is set.
    private(set) var streamLimit = Int.max
    /// The highest stream that is still served after a `GOAWAY`.
    private(set) var lastServedStream: Int32?
    /// The streams that are open or wait for an answer, by number.
    private(set) var streams: [Int32: HTTP2Stream] = [:]
    /// The highest stream the client has opened.
    private(set) var highestStream: Int32 = 0
    /// The number of streams that count against the limit.
    private var openStreams = 0
    private var current: HTTP2Stream?
    private var events: [Event] = []
    private var rawFrames: [UInt8] = []
    private var scratch: [UInt8] = []
    private var fields: [nghttp2_nv] = []
    /// Valid from `init` to `deinit`: libnghttp2 returns no session only when memory is exhausted.
    private let session: OpaquePointer?

    init(settings: [HTTP2Setting], connectionWindow: Int32) {
        var callbacks: OpaquePointer?
        var options: OpaquePointer?
        var made: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_option_new(&options)
        nghttp2_option_set_no_auto_ping_ack(options, 1)
        nghttp2_option_set_no_closed_streams(options, 1)
        Self.install(in: callbacks)
        // The session has no owner yet; `self` is set right below, before any byte is fed.
        nghttp2_session_server_new2(&made, callbacks, nil, options)
        nghttp2_session_callbacks_del(callbacks)
        nghttp2_option_del(options)
        session = made
        nghttp2_session_set_user_data(session, Unmanaged.passUnretained(self).toOpaque())
        submit(settings)
        nghttp2_session_set_local_window_size(session, 0, 0, connectionWindow)
    }

    deinit { nghttp2_session_del(session) }

    /// Whether nothing more is read or sent: the client broke the protocol, or closed the session with nothing left to
    /// send.
    var isFinished: Bool { nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0 }

    /// Takes bytes from the client; returns the events that they complete, in order.
    ///
    /// Returns nil when the client broke the protocol: the rest of the output says so, then the connection must end.
    func receive(_ bytes: UnsafeRawBufferPointer) -> [Event]? {
        let taken = nghttp2_session_mem_recv(session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        guard taken == bytes.count else { return nil }
        let happened = events
        events.removeAll(keepingCapacity: true)
        return happened
    }

    /// Appends everything that is ready to be sent.
    func drain(into buffer: inout ByteBuffer) {
        while true {
            var chunk: UnsafePointer<UInt8>?
            let length = nghttp2_session_mem_send(session, &chunk)
            guard length > 0, let chunk else { break }
            let start = buffer.writerIndex
            buffer.writeBytes(UnsafeBufferPointer(start: chunk, count: length))
            if chunk[3] == 4, length > 9 { uncoverStreamLimit(in: &buffer, from: start, length: length) }
        }
        if !rawFrames.isEmpty {
            buffer.writeBytes(rawFrames)
            rawFrames.removeAll()
        }
    }

    /// Sends settings.
    ///
    /// A stream limit is enforced at once, also for a client that has not seen it yet.
    func submit(_ settings: [HTTP2Setting]) {
        var entries: [nghttp2_settings_entry] = []
        for setting in settings {
            if setting.id == 3 { streamLimit = Int(setting.value) }
            let id = setting.id == 3 ? Self.disguisedStreamLimit : setting.id
            entries.append(nghttp2_settings_entry(settings_id: Int32(clamping: id), value: setting.value))
        }
        nghttp2_submit_settings(session, 0, entries, entries.count)
    }

    /// Answers a stream.
    ///
    /// With `holdsBody` only the headers go out until ``releaseBody(of:)``.
    func answer(_ stream: HTTP2Stream, status: Int, headers: [HTTPHeader], body: [UInt8], holdsBody: Bool) {
        guard !stream.isAbandoned, !stream.isAnswered, streams[stream.id] != nil else { return }
        stream.isAnswered = true
        stream.answerBody = body
        stream.isHoldingBody = holdsBody
        encode(status: status, headers: headers)
        let hasBody = !body.isEmpty || holdsBody
        scratch.withUnsafeMutableBufferPointer { bytes in
            guard let base = bytes.baseAddress else { return }
            var offset = 0
            for place in fields.indices {
                fields[place].name = base + offset
                offset += fields[place].namelen
                fields[place].value = base + offset
                offset += fields[place].valuelen
            }
            if hasBody {
                var provider = nghttp2_data_provider()
                provider.read_callback = Self.readBody
                nghttp2_submit_response(session, stream.id, fields, fields.count, &provider)
            } else {
                nghttp2_submit_response(session, stream.id, fields, fields.count, nil)
            }
        }
    }

    /// Sends the body of a held answer.
    func releaseBody(of stream: HTTP2Stream) {
        guard stream.isHoldingBody, streams[stream.id] != nil else { return }
        stream.isHoldingBody = false
        nghttp2_session_resume_data(session, stream.id)
    }

    /// Resets a stream.
    func reset(_ id: Int32, code: UInt32) {
        streams[id]?.isAbandoned = true
        nghttp2_submit_rst_stream(session, 0, id, code)
    }

    /// Acknowledges a ping.
    func acknowledge(ping: UInt64) {
        withUnsafeBytes(of: ping) { data in
            _ = nghttp2_submit_ping(session, 1, data.bindMemory(to: UInt8.self).baseAddress)
        }
    }

    /// Sends a `GOAWAY`.
    ///
    /// Streams above `last` get no answer any more; those opened later are ignored.
    func goAway(last: Int32, code: UInt32, debugData: [UInt8]) {
        let served = min(last, lastServedStream ?? .max)
        lastServedStream = served
        for stream in streams.values where stream.id > served { stream.isAbandoned = true }
        let length = 8 + debugData.count
        rawFrames += [
            UInt8(truncatingIfNeeded: length >> 16 & 255), UInt8(truncatingIfNeeded: length >> 8 & 255),
            UInt8(truncatingIfNeeded: length & 255), 7, 0, 0, 0, 0, 0,
        ]
        withUnsafeBytes(of: UInt32(bitPattern: last).bigEndian) { rawFrames += $0 }
        withUnsafeBytes(of: code.bigEndian) { rawFrames += $0 }
        rawFrames += debugData
    }

    // MARK: Events of libnghttp2

    fileprivate func opened(_ id: Int32) {
        highestStream = max(highestStream, id)
        let stream = HTTP2Stream(id: id)
        current = stream
        streams[id] = stream
        openStreams += 1
        if let lastServedStream, id > lastServedStream, streams.count < Self.maximumIgnoredStreams {
            stream.isAbandoned = true
        } else if openStreams > streamLimit || id > lastServedStream ?? .max {
            reset(id, code: Self.refusedStream)
            events.append(.refused(id))
        }
    }

    fileprivate func field(_ id: Int32, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        guard let stream = current, stream.id == id, !stream.isAbandoned else { return }
        stream.add(name: name, value: value)
    }

    fileprivate func body(_ id: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard let stream = streams[id], !stream.isAbandoned else { return }
        stream.append(body: bytes)
    }

    fileprivate func received(_ frame: nghttp2_frame) {
        let id = frame.hd.stream_id
        let isLast = frame.hd.flags & 1 != 0
        switch UInt32(truncatingIfNeeded: frame.hd.type) {
        case NGHTTP2_HEADERS.rawValue:
            guard let stream = streams[id], !stream.isAbandoned else { return }
            if frame.headers.cat == NGHTTP2_HCAT_REQUEST { events.append(.began(stream)) }
            if isLast { events.append(.ended(stream)) }
        case NGHTTP2_DATA.rawValue:
            guard isLast, let stream = streams[id], !stream.isAbandoned else { return }
            events.append(.ended(stream))
        case NGHTTP2_PING.rawValue:
            guard !isLast else { return }  // The same bit means "acknowledged" here.
            events.append(.ping(withUnsafeBytes(of: frame.ping.opaque_data) { $0.loadUnaligned(as: UInt64.self) }))
        case NGHTTP2_RST_STREAM.rawValue:
            events.append(.reset(id, frame.rst_stream.error_code))
        default:
            break
        }
    }

    fileprivate func closed(_ id: Int32) {
        if let stream = streams.removeValue(forKey: id) {
            stream.isAbandoned = true
            openStreams -= 1
        }
    }

    fileprivate func read(_ id: Int32, into target: UnsafeMutableBufferPointer<UInt8>, flags: inout UInt32) -> Int {
        guard let stream = streams[id] else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        if stream.isHoldingBody { return Int(NGHTTP2_ERR_DEFERRED.rawValue) }
        let part = stream.nextPart(upTo: target.count)
        _ = target.update(fromContentsOf: part)
        if stream.isBodySent { flags |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue) }
        return part.count
    }

    private func uncoverStreamLimit(in buffer: inout ByteBuffer, from start: Int, length: Int) {
        for entry in stride(from: start + 9, to: start + length, by: 6) {
            let id: UInt16? = buffer.getInteger(at: entry)
            if id == Self.disguisedStreamLimit { buffer.setInteger(UInt16(3), at: entry) }
        }
    }

    private func encode(status: Int, headers: [HTTPHeader]) {
        scratch.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
        append(":status", "\(status)", .indexed)
        for header in headers { append(header.name, header.value, header.indexing) }
    }

    private func append(_ name: String, _ value: String, _ indexing: HTTPHeader.Indexing) {
        let before = scratch.count
        scratch.append(contentsOf: name.utf8)
        let between = scratch.count
        scratch.append(contentsOf: value.utf8)
        fields.append(
            nghttp2_nv(
                name: nil,
                value: nil,
                namelen: between - before,
                valuelen: scratch.count - between,
                flags: indexing == .literal ? UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue) : 0
            )
        )
    }
}

// MARK: C callbacks: each finds its session behind the user pointer and hands the call on.

/// Returns the session of a callback's user pointer: it owns the C object, so it is alive whenever that object calls
/// back.
private func session(_ pointer: UnsafeMutableRawPointer?) -> HTTP2ServerSession? {
    pointer.map { Unmanaged<HTTP2ServerSession>.fromOpaque($0).takeUnretainedValue() }
}

extension HTTP2ServerSession {
    private static let readBody: nghttp2_data_source_read_callback = { _, id, target, length, flags, _, user in
        guard let session = ChaparSimulator.session(user), let flags else {
            return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        return session.read(id, into: UnsafeMutableBufferPointer(start: target, count: length), flags: &flags.pointee)
    }

    private static func install(in callbacks: OpaquePointer?) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            if let frame, frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST {
                ChaparSimulator.session(user)?.opened(frame.pointee.hd.stream_id)
            }
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _,
            frame,
            name,
            nameLength,
            value,
            length,
            _,
            user in
            guard let frame else { return 0 }
            ChaparSimulator.session(user)?.field(
                frame.pointee.hd.stream_id,
                name: UnsafeBufferPointer(start: name, count: nameLength),
                value: UnsafeBufferPointer(start: value, count: length)
            )
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, id, data, length, user in
            ChaparSimulator.session(user)?.body(id, UnsafeBufferPointer(start: data, count: length))
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            if let frame { ChaparSimulator.session(user)?.received(frame.pointee) }
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, id, _, user in
            ChaparSimulator.session(user)?.closed(id)
            return 0
        }
    }
}
