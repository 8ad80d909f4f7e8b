import CChaparNghttp2
import NIOCore
import ChaparCore

/// The result of a stream's call.
struct EndedCall {
    let call: QueuedCall
    let result: Result<HTTPAnswer, HTTPFailure>
}

/// The peer's announcement that it takes no new streams.
struct GoAway {
    let lastStreamID: Int32
    let code: UInt32
    let debug: String

    /// The announcement as text: `GOAWAY NO_ERROR {"reason":"Shutdown"}`.
    var text: String {
        "GOAWAY \(HTTP2Session.name(ofCode: code))" + (debug.isEmpty ? "" : " \(debug)")
    }
}

/// The HTTP/2 state of one client connection: bytes in, bytes out, no socket and no clock.
///
/// It is a thin owner of a libnghttp2 session. `HTTP2Connection` feeds it and takes `ended` after each read. It never
/// holds a call that the peer's limits do not allow yet; those stay in the pool, where another connection can take
/// them.
final class HTTP2Session {
    /// The most streams on a connection, also where the peer allows more: the calls of a lost connection have an
    /// unknown outcome, so even a peer's "no limit" is limited.
    static let maximumStreams = 4096
    /// The most bytes of fields in an answer.
    static let maximumHeaderBytes = 64 * 1024

    private let codec: OpaquePointer
    private let streams = StreamTable()
    private let fields: RequestFields
    private let maximumAnswerBytes: Int
    private let budget: AnswerBudget
    /// The slot whose header block is being read.
    private var headerSlot: Int?

    /// The calls that ended since this was last emptied.
    var ended: [EndedCall] = []
    /// The peer's current limit; 0 until its first SETTINGS, before which no call may be sent.
    private(set) var streamLimit = 0
    /// Whether the peer's first SETTINGS has arrived.
    private(set) var hasSettings = false
    /// The peer's latest GOAWAY.
    private(set) var goAway: GoAway?
    /// Whether the stream IDs are used up.
    private(set) var isExhausted = false
    /// The codec's last message about a broken rule.
    private(set) var complaint: String?

    /// Makes the client side and its first frames; nil when out of memory.
    init?(endpoint: HTTPEndpoint, maximumAnswerBytes: Int, budget: AnswerBudget, firstStreamID: Int32? = nil) {
        var made: OpaquePointer?
        guard nghttp2_session_client_new(&made, SessionCallbacks.table, nil) == 0, let codec = made else { return nil }
        self.codec = codec
        self.maximumAnswerBytes = maximumAnswerBytes
        self.budget = budget
        fields = RequestFields(scheme: endpoint.scheme.rawValue, authority: endpoint.authority)
        nghttp2_session_set_user_data(codec, Unmanaged.passUnretained(self).toOpaque())
        if let firstStreamID { nghttp2_session_set_next_stream_id(codec, firstStreamID) }
        // One answer always fits its stream's window, so that only the connection's window ever needs an update.
        let window = UInt32(clamping: max(65_535, min(maximumAnswerBytes, 1 << 24)))
        let settings = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: window),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(truncatingIfNeeded: Self.maximumHeaderBytes)
            ),
        ]
        let noFlags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        guard nghttp2_submit_settings(codec, noFlags, settings, settings.count) == 0,
            nghttp2_session_set_local_window_size(codec, noFlags, 0, 1 << 26) == 0
        else { return nil }
    }

    deinit { nghttp2_session_del(codec) }

    /// The number of open streams, as the peer counts them.
    var openStreams: Int { streams.count }
    /// Whether the connection's flow-control window allows a body to be sent.
    var hasWindow: Bool { nghttp2_session_get_remote_window_size(codec) > 0 }
    /// Whether there are frames to write.
    var wantsWrite: Bool { nghttp2_session_want_write(codec) != 0 }
    /// Whether the codec still sends requests: not after a GOAWAY, which it also sends itself to a peer that broke a
    /// rule.
    var acceptsRequests: Bool { nghttp2_session_check_request_allowed(codec) != 0 }
    /// Whether the connection can neither read nor write any more.
    var isFinished: Bool { nghttp2_session_want_read(codec) == 0 && nghttp2_session_want_write(codec) == 0 }

    // MARK: Bytes

    /// Reads bytes from the peer; returns false when the connection is unusable.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let base = bytes.assumingMemoryBound(to: UInt8.self).baseAddress
        let taken = nghttp2_session_mem_recv(codec, base, bytes.count)
        if taken < 0, complaint == nil { complaint = String(cString: nghttp2_strerror(Int32(clamping: taken))) }
        return taken >= 0
    }

    /// The result of making frames.
    enum Output { case more, done, failed }

    /// Appends frames to `buffer` until it holds `limit` bytes or no frames are left.
    func makeFrames(into buffer: inout ByteBuffer, limit: Int) -> Output {
        while buffer.readableBytes < limit {
            var bytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(codec, &bytes)
            if count < 0 { return .failed }
            if count == 0 {
                // Requests that the codec still queues point into the fields' memory.
                if nghttp2_session_get_outbound_queue_size(codec) == 0 { fields.reset() }
                return .done
            }
            buffer.writeBytes(UnsafeRawBufferPointer(start: bytes, count: count))
        }
        return .more
    }

    // MARK: Calls

    /// Sets the fields of every further call.
    func setFields(_ headers: [HTTPHeader]) { fields.setExtra(headers) }

    /// Opens a stream for a call; a failure means that nothing was sent.
    func open(_ queued: QueuedCall, deadline: NIODeadline) -> HTTPFailure? {
        let call = queued.batch.calls[queued.index]
        guard let pointer = fields.make(call) else {
            return HTTPFailure(.notProcessed, .invalidCall, "the path or a field holds what HTTP forbids")
        }
        var stream = Stream()
        (stream.batch, stream.index, stream.tries) = (queued.batch, queued.index, queued.tries)
        stream.deadline = deadline
        let slot = streams.insert(stream)
        let user = UnsafeMutableRawPointer(bitPattern: slot + 1)
        let id: Int32
        if call.body.isEmpty {
            id = nghttp2_submit_request(codec, nil, pointer, fields.count, nil, user)
        } else {
            var source = nghttp2_data_provider()
            source.source.fd = Int32(clamping: slot)
            source.read_callback = SessionCallbacks.readBody
            id = nghttp2_submit_request(codec, nil, pointer, fields.count, &source, user)
        }
        guard id > 0 else {
            streams.remove(slot)
            if id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE.rawValue { isExhausted = true }
            return HTTPFailure(.notProcessed, .connectionLost, String(cString: nghttp2_strerror(id)))
        }
        streams.at(slot).pointee.id = id
        // Two IDs early, so that the connection is replaced before a call must be refused.
        if nghttp2_session_get_next_stream_id(codec) > UInt32(truncatingIfNeeded: Int32.max - 2) { isExhausted = true }
        return nil
    }

    /// Gives up every call whose deadline is at or before `now`: it ends as unknown, and its stream is cancelled.
    func expire(_ now: NIODeadline) {
        streams.forEachUnreported { slot, stream in
            guard stream.pointee.deadline <= now else { return }
            giveUp(slot, HTTPFailure(.unknown, .deadline, "no answer before the deadline"), NGHTTP2_CANCEL)
        }
    }

    /// Ends every call with `failure`, for a lost connection.
    func failAll(_ failure: HTTPFailure) {
        streams.forEachUnreported { slot, _ in finish(slot, .failure(failure)) }
    }

    /// Sends a ping to the peer.
    func ping() { nghttp2_submit_ping(codec, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil) }

    /// Sends a GOAWAY; no stream may be open.
    func terminate() { nghttp2_session_terminate_session(codec, UInt32(NGHTTP2_NO_ERROR.rawValue)) }

    /// The name of an HTTP/2 error code, such as `REFUSED_STREAM`.
    static func name(ofCode code: UInt32) -> String { String(cString: nghttp2_http2_strerror(code)) }

    private func finish(_ slot: Int, _ result: Result<HTTPAnswer, HTTPFailure>) {
        let stream = streams.at(slot)
        guard let batch = stream.pointee.batch else { return }
        stream.pointee.batch = nil
        // The codec may hold the stream for long; the partial answer is released at once.
        budget.release(stream.pointee.reserved)
        (stream.pointee.reserved, stream.pointee.body, stream.pointee.headers) = (0, [], [])
        let call = QueuedCall(batch: batch, index: stream.pointee.index, tries: stream.pointee.tries)
        ended.append(EndedCall(call: call, result: result))
    }

    private func giveUp(_ slot: Int, _ failure: HTTPFailure, _ code: nghttp2_error_code) {
        let id = streams.at(slot).pointee.id
        finish(slot, .failure(failure))
        nghttp2_submit_rst_stream(codec, UInt8(NGHTTP2_FLAG_NONE.rawValue), id, code.rawValue)
    }

    private func slot(of id: Int32) -> Int? {
        nghttp2_session_get_stream_user_data(codec, id).map { Int(bitPattern: $0) - 1 }
    }
}

// MARK: - Calls of the codec

extension HTTP2Session {
    func note(_ text: String) { complaint = text }

    func beginHeaders(_ id: Int32) {
        headerSlot = slot(of: id)
        guard let headerSlot else { return }
        let stream = streams.at(headerSlot)
        guard (100..<200).contains(stream.pointee.status) else { return }
        stream.pointee.status = 0  // What came so far was informational (1xx); this block is another.
        stream.pointee.headers.removeAll()
        budget.release(stream.pointee.reserved)
        stream.pointee.reserved = 0
    }

    func header(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Int32 {
        guard let headerSlot else { return 0 }
        let stream = streams.at(headerSlot)
        guard stream.pointee.batch != nil else { return 0 }
        if name.first == UInt8(ascii: ":") {
            stream.pointee.status = value.reduce(0) { $0 * 10 + Int($1) - 48 }  // The codec checked the digits.
            return 0
        }
        stream.pointee.headerBytes += name.count + value.count + 32
        guard stream.pointee.headerBytes <= Self.maximumHeaderBytes else {
            let text = "the answer's fields are larger than \(Self.maximumHeaderBytes) bytes"
            giveUp(headerSlot, HTTPFailure(.unknown, .badAnswer, text), NGHTTP2_CANCEL)
            return 0
        }
        guard reserve(name.count + value.count + 32, headerSlot) else { return 0 }
        stream.pointee.headers.append(
            HTTPHeader(String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
        )
        return 0
    }

    func data(_ id: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard let slot = slot(of: id) else { return }
        let stream = streams.at(slot)
        guard stream.pointee.batch != nil else { return }
        guard stream.pointee.body.count + bytes.count <= maximumAnswerBytes else {
            let text = "the answer's body is larger than \(maximumAnswerBytes) bytes"
            return giveUp(slot, HTTPFailure(.unknown, .badAnswer, text), NGHTTP2_CANCEL)
        }
        guard reserve(bytes.count, slot) else { return }
        stream.pointee.body.append(contentsOf: bytes)
    }

    /// Reserves memory for an answer; gives the answer up when none is left.
    private func reserve(_ bytes: Int, _ slot: Int) -> Bool {
        guard budget.reserve(bytes) else {
            let text = "the unfinished answers of this service have more than \(budget.limit) bytes"
            giveUp(slot, HTTPFailure(.unknown, .badAnswer, text), NGHTTP2_CANCEL)
            return false
        }
        streams.at(slot).pointee.reserved += bytes
        return true
    }

    func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let head = frame.pointee.hd
        switch UInt32(truncatingIfNeeded: head.type) {
        case NGHTTP2_HEADERS.rawValue:
            if head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0, let headerSlot { complete(headerSlot) }
        case NGHTTP2_DATA.rawValue:
            if head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0, let slot = slot(of: head.stream_id) {
                complete(slot)
            }
        case NGHTTP2_SETTINGS.rawValue:
            guard head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0 else { return }
            hasSettings = true
            let limit = nghttp2_session_get_remote_settings(codec, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            streamLimit = Int(min(limit, UInt32(truncatingIfNeeded: Self.maximumStreams)))
        case NGHTTP2_GOAWAY.rawValue:
            let content = frame.pointee.goaway
            let bytes = UnsafeBufferPointer(start: content.opaque_data, count: min(content.opaque_data_len, 256))
            let printable = bytes.filter { (32..<127).contains($0) }
            goAway = GoAway(
                lastStreamID: content.last_stream_id,
                code: content.error_code,
                debug: String(decoding: printable, as: UTF8.self)
            )
        default: break
        }
    }

    /// Completes a call after the peer has ended its side.
    ///
    /// If our side is not written yet, the rest is not needed (RFC 9113, section 8.1).
    private func complete(_ slot: Int) {
        let stream = streams.at(slot)
        guard let batch = stream.pointee.batch else { return }
        stream.pointee.isComplete = true
        if stream.pointee.sent < batch.calls[stream.pointee.index].body.count {
            nghttp2_submit_rst_stream(
                codec,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                stream.pointee.id,
                NGHTTP2_CANCEL.rawValue
            )
        }
    }

    func malformed(_ id: Int32) {
        guard let slot = slot(of: id) else { return }
        streams.at(slot).pointee.isMalformed = true
    }

    /// Fails a request that the codec could not send; nothing of it left.
    func notSent(_ id: Int32, _ code: Int32) {
        guard let slot = slot(of: id) else { return }
        let isGone = code == NGHTTP2_ERR_START_STREAM_NOT_ALLOWED.rawValue
        let text = String(cString: nghttp2_strerror(code))
        finish(slot, .failure(HTTPFailure(.notProcessed, isGone ? .goAway : .invalidCall, text)))
    }

    func closed(_ id: Int32, _ code: UInt32) {
        guard let slot = slot(of: id) else { return }
        if headerSlot == slot { headerSlot = nil }
        let stream = streams.at(slot)
        if stream.pointee.batch != nil { finish(slot, result(of: stream, code)) }
        streams.remove(slot)
    }

    private func result(of stream: UnsafeMutablePointer<Stream>, _ code: UInt32) -> Result<HTTPAnswer, HTTPFailure> {
        if stream.pointee.isMalformed {
            let text = complaint.map { ": \($0)" } ?? ""
            return .failure(HTTPFailure(.unknown, .badAnswer, "the answer broke the protocol\(text)"))
        }
        if stream.pointee.isComplete {
            let status = stream.pointee.status
            guard status >= 200 else {  // The codec lets `000` and `099` through.
                return .failure(
                    HTTPFailure(.unknown, .badAnswer, "the answer's status is \(status), which answers nothing")
                )
            }
            return .success(
                HTTPAnswer(status: status, headers: stream.pointee.headers, body: stream.pointee.body)
            )
        }
        // A peer that has begun to answer has processed the call, also when it resets the stream afterwards.
        let isAnswerBegun = stream.pointee.status != 0
        if !isAnswerBegun, let goAway, stream.pointee.id > goAway.lastStreamID {
            return .failure(HTTPFailure(.notProcessed, .goAway, goAway.text))
        }
        if !isAnswerBegun, code == NGHTTP2_REFUSED_STREAM.rawValue {
            return .failure(HTTPFailure(.notProcessed, .refusedStream, "the peer refused the stream"))
        }
        return .failure(HTTPFailure(.unknown, .reset(code), "the peer reset the stream: \(Self.name(ofCode: code))"))
    }

    func readBody(
        slot: Int,
        into target: UnsafeMutablePointer<UInt8>,
        room: Int,
        flags: UnsafeMutablePointer<UInt32>
    ) -> Int {
        let stream = streams.at(slot)
        guard let batch = stream.pointee.batch else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        let start = stream.pointee.sent
        let (count, isLast) = batch.calls[stream.pointee.index].body.withUnsafeBufferPointer { body in
            let count = min(room, body.count - start)
            if let base = body.baseAddress { target.update(from: base + start, count: count) }
            return (count, start + count == body.count)
        }
        stream.pointee.sent = start + count
        if isLast { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
        return count
    }
}
