import CChaparNghttp2

/// The C side of a session: the functions that libnghttp2 calls while it reads or makes frames.
///
/// Each finds the session through the user-data pointer, which lives as long as the codec, and calls it.
enum SessionCallbacks {
    /// The table, made once and never freed.
    ///
    /// `nonisolated(unsafe)` because it is immutable after creation, and the library only reads it.
    nonisolated(unsafe) static let table: OpaquePointer? = makeTable()

    private static func session(_ user: UnsafeMutableRawPointer?) -> HTTP2Session? {
        user.map { Unmanaged<HTTP2Session>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func makeTable() -> OpaquePointer? {
        var made: OpaquePointer?
        guard nghttp2_session_callbacks_new(&made) == 0, let table = made else { return nil }
        nghttp2_session_callbacks_set_on_begin_headers_callback(table) { _, frame, user in
            if let frame { SessionCallbacks.session(user)?.beginHeaders(frame.pointee.hd.stream_id) }
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(table) { _, _, name, nameLength, value, valueLength, _, user in
            guard let session = SessionCallbacks.session(user) else { return 0 }
            return session.header(
                UnsafeBufferPointer(start: name, count: nameLength),
                UnsafeBufferPointer(start: value, count: valueLength)
            )
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(table) { _, _, id, bytes, count, user in
            SessionCallbacks.session(user)?.data(id, UnsafeBufferPointer(start: bytes, count: count))
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(table) { _, frame, user in
            if let frame { SessionCallbacks.session(user)?.received(frame) }
            return 0
        }
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(table) { _, frame, _, user in
            if let frame { SessionCallbacks.session(user)?.malformed(frame.pointee.hd.stream_id) }
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_not_send_callback(table) { _, frame, code, user in
            guard let frame, frame.pointee.hd.type == UInt8(NGHTTP2_HEADERS.rawValue) else { return 0 }
            SessionCallbacks.session(user)?.notSent(frame.pointee.hd.stream_id, code)
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(table) { _, id, code, user in
            SessionCallbacks.session(user)?.closed(id, code)
            return 0
        }
        nghttp2_session_callbacks_set_error_callback2(table) { _, _, text, count, user in
            guard let text else { return 0 }
            let bytes = UnsafeRawBufferPointer(start: text, count: count)
            SessionCallbacks.session(user)?.note(String(decoding: bytes, as: UTF8.self))
            return 0
        }
        return table
    }

    /// Copies the next part of a call's body to the codec; the source holds the stream's slot.
    static let readBody: nghttp2_data_source_read_callback = { _, _, target, room, flags, source, user in
        guard let source, let target, let flags, let session = SessionCallbacks.session(user) else {
            return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        return session.readBody(slot: Int(clamping: source.pointee.fd), into: target, room: room, flags: flags)
    }
}
