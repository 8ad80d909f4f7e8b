import ChaparTesting

/// The ways in which an HTTP/2 peer, or something between, can be broken.
enum HTTP2Nonsense: Int, Nonsense, CaseIterable {
    // Bytes.
    case flippedBits, wrongLength, cut, cutInSilence, cutWithoutGoodbye, brokenTLS, noise
    // Before the first request.
    case early
    // Legal, if odd: nothing may come of it.
    case small, unknownTypes, priorities, emptyFrames, informational, oddSettings, padded
    // Frames that have no place.
    case neverOpened, closedStream, dataFirst, headersTwice, overPadded, continuationAlone, continuationForEver
    case interleaved, pushPromise
    // Values that are forbidden.
    case settings, windowUpdates, resets, goAways, hugeFields, bomb, statuses, lengths

    var isLegal: Bool { rawValue >= Self.small.rawValue && rawValue <= Self.padded.rawValue }

    /// Whether the meaning of the bytes is undefined.
    var isObscure: Bool { [.flippedBits, .wrongLength, .noise].contains(self) }
}

/// A part of what a broken peer writes, and what it means.
struct Piece: Sendable {
    enum Meaning: Sendable, Equatable {
        case plain
        /// The answer's first fields, with a status.
        case begun(Int)
        /// The end of the answer.
        case whole(Int)
        /// The peer did not process the request.
        case refusal
        /// The peer processed no request above this stream.
        case goAway(Int32)
        /// From here on the peer is broken.
        case nonsense
    }

    var bytes: [UInt8]
    var stream: Int32 = 0
    var meaning = Meaning.plain

    static func nonsense(_ bytes: [UInt8]) -> Piece { Piece(bytes: bytes, meaning: .nonsense) }
}

/// Makes a broken peer's answers.
struct HTTP2Composer {
    static let statuses = [200, 200, 201, 400, 403, 404, 410, 413, 429, 500, 503]

    var dice: Dice
    /// The numbers of the calls on the streams.
    let numbers: [Int32: Int]
    /// Whether an answer's fields may come in two frames.
    ///
    /// libnghttp2 counts each read of a CONTINUATION frame's head against its limit of 8, so not for bytes that come
    /// one by one.
    var splitsFields = true

    /// An answer to one request, in as many frames as chance wants.
    mutating func answer(_ stream: Int32, isPadded: Bool = false) -> [Piece] {
        let status = dice.pick(Self.statuses)
        let body = Attempts.body(numbers[stream] ?? -1, status)
        var block = ServerConnection.block([(":status", "\(status)"), ("x-number", "\(numbers[stream] ?? -1)")])
        var pieces: [Piece] = []
        func add(_ type: UInt8, _ flags: UInt8, _ payload: [UInt8], _ meaning: Piece.Meaning = .plain) {
            let bytes = ServerConnection.frame(type, flags: flags, stream: stream, payload)
            pieces.append(Piece(bytes: bytes, stream: stream, meaning: meaning))
        }
        if isPadded {
            let padding = dice.roll(0...255)
            block = [UInt8(padding)] + block + [UInt8](repeating: 0, count: padding)
            add(1, 4 | 8, block, .begun(status))
            add(0, 1 | 8, [UInt8(padding)] + body + [UInt8](repeating: 0, count: padding), .whole(status))
            return pieces
        }
        switch dice.roll(1...4) {
        case 1 where splitsFields:
            let place = dice.roll(0...block.count)
            add(1, 0, Array(block[..<place]))
            add(9, 4, Array(block[place...]), .begun(status))
            add(0, 1, body, .whole(status))
        case 2:
            let place = dice.roll(0...body.count)
            add(1, 4, block, .begun(status))
            add(0, 0, Array(body[..<place]))
            add(0, 1, Array(body[place...]), .whole(status))
        case 3:
            add(1, 4, block, .begun(status))
            add(0, 0, body)
            add(1, 5, ServerConnection.block([("x-trailer", "1")]), .whole(status))
        default:
            add(1, 4, block, .begun(status))
            add(0, 1, body, .whole(status))
        }
        return pieces
    }

    /// The first fields of an answer whose end is left out.
    mutating func beginning(_ stream: Int32) -> Piece {
        let status = dice.pick(Self.statuses)
        let block = ServerConnection.block([(":status", "\(status)")])
        return Piece(
            bytes: ServerConnection.frame(1, flags: 4, stream: stream, block),
            stream: stream,
            meaning: .begun(status)
        )
    }

    /// Returns a broken peer's answer to `streams`, which are not empty.
    mutating func compose(_ kind: HTTP2Nonsense, _ streams: [Int32]) -> [Piece] {
        var order = streams.shuffled(using: &dice)
        if kind == .resets || kind == .goAways { order = Array(order.prefix(dice.roll(1...order.count))) }
        var pieces: [Piece] = []
        let before = dice.roll(0...order.count - 1)
        let answered = order[..<before]
        for stream in answered { pieces += answer(stream) }
        let rest = Array(order[before...])
        switch kind {
        case .flippedBits, .wrongLength, .cut, .cutInSilence, .cutWithoutGoodbye, .brokenTLS, .noise, .small, .early:
            for stream in rest { pieces += answer(stream) }
            return pieces
        case .padded:
            for stream in rest { pieces += answer(stream, isPadded: true) }
            return pieces
        case .resets: return pieces + resets(rest)
        case .goAways: return pieces + goAways(rest)
        case .unknownTypes, .priorities, .emptyFrames, .informational, .oddSettings:
            for stream in rest {
                for _ in 0..<dice.roll(1...4) { pieces.append(Piece(bytes: oddity(kind, stream))) }
                pieces += answer(stream)
            }
            return pieces
        default:
            let closed = answered.first ?? rest[0]
            let isPossible = kind != .closedStream || !answered.isEmpty
            pieces.append(.nonsense(nonsense(isPossible ? kind : .neverOpened, rest[0], closed: closed)))
            let isUnspoken = kind == .statuses || kind == .lengths || dice.happens(onceIn: 2)
            for stream in rest.dropFirst(isUnspoken ? 1 : 0) { pieces += answer(stream) }
            return pieces
        }
    }

    /// Something legal that a client must pass over.
    private mutating func oddity(_ kind: HTTP2Nonsense, _ stream: Int32) -> [UInt8] {
        switch kind {
        case .unknownTypes:
            let payload = dice.bytes(dice.roll(0...300))
            let id = dice.pick([0, stream, 2, 9999, Int32.max])
            return ServerConnection.frame(
                UInt8(dice.roll(17...255)),
                flags: UInt8(dice.roll(0...255)),
                stream: id,
                payload
            )
        case .priorities:
            let id = dice.pick([stream, 9999, 2, 1])
            let parent = dice.pick([0, 77, 4])
            return ServerConnection.frame(2, stream: id, [0, 0, 0, UInt8(parent), UInt8(dice.roll(0...255))])
        case .emptyFrames:
            let one = dice.pick([
                ServerConnection.frame(4), ServerConnection.frame(6, dice.bytes(8)),
                ServerConnection.frame(6, flags: 1, dice.bytes(8)), ServerConnection.frame(8, [0, 0, 0, 1]),
            ])
            return (0..<dice.roll(1...10)).flatMap { _ in one }
        case .informational:
            let block = ServerConnection.block([
                (":status", dice.pick(["100", "102", "103", "199"])), ("x-hint", "no"),
            ])
            return ServerConnection.frame(1, flags: 4, stream: stream, block)
        default:  // Settings that change and change back.
            func settings(_ id: UInt8, _ value: UInt32) -> [UInt8] {
                ServerConnection.frame(4, [0, id] + ServerConnection.bytes(value))
            }
            return dice.pick([
                settings(3, 0) + settings(3, 100), settings(4, 0) + settings(4, 65_535), settings(200, .max),
                settings(5, 16_777_215) + settings(5, 16_384), settings(6, 0) + settings(6, 1 << 20),
                settings(4, 0x7FFF_FFFF) + settings(4, 65_535),
            ])
        }
    }

    /// Ends streams with every code, also streams that are half answered or unheard of.
    private mutating func resets(_ streams: [Int32]) -> [Piece] {
        var pieces: [Piece] = []
        for stream in streams {
            if dice.happens(onceIn: 3) { pieces.append(beginning(stream)) }
            let code = dice.pick([0, 1, 2, 5, 7, 7, 7, 8, 11, 13, UInt32.max])
            let bytes = ServerConnection.frame(3, stream: stream, ServerConnection.bytes(code))
            pieces.append(Piece(bytes: bytes, stream: stream, meaning: code == 7 ? .refusal : .plain))
            if dice.happens(onceIn: 4) { pieces.append(Piece(bytes: bytes)) }
        }
        if dice.happens(onceIn: 3) {
            let id = dice.pick([0, 2, 9999] as [Int32])
            pieces.append(.nonsense(ServerConnection.frame(3, stream: id, ServerConnection.bytes(7))))
        }
        return pieces
    }

    /// Says goodbye several times, with last streams that fall or, what is forbidden, rise.
    private mutating func goAways(_ streams: [Int32]) -> [Piece] {
        var pieces: [Piece] = []
        for stream in streams where dice.happens(onceIn: 3) { pieces.append(beginning(stream)) }
        var lowest = Int32.max
        for _ in 0..<dice.roll(1...3) {
            let last = dice.pick([0, Int32.max, dice.pick(streams), dice.pick(streams)])
            if last > lowest { pieces.append(.nonsense([])) }
            lowest = min(lowest, last)
            let debug = dice.bytes(dice.pick([0, 10, 3000]))
            let payload =
                ServerConnection.bytes(UInt32(last)) + ServerConnection.bytes(UInt32(dice.roll(0...13))) + debug
            pieces.append(Piece(bytes: ServerConnection.frame(7, payload), meaning: .goAway(lowest)))
        }
        for stream in streams where stream <= lowest && !pieces.contains(where: { $0.stream == stream }) {
            pieces += answer(stream)
        }
        pieces.append(.nonsense([]))
        for stream in streams where stream > lowest && dice.happens(onceIn: 3) { pieces += answer(stream) }
        return pieces
    }

    /// Returns bytes that no peer may write, for `stream`, which is open, and for others.
    private mutating func nonsense(_ kind: HTTP2Nonsense, _ stream: Int32, closed: Int32) -> [UInt8] {
        let fields = ServerConnection.block([(":status", "200")])
        func frame(_ type: UInt8, _ flags: UInt8, _ id: Int32, _ payload: [UInt8], length: Int? = nil) -> [UInt8] {
            ServerConnection.frame(type, flags: flags, stream: id, payload, length: length)
        }
        func setting(_ id: UInt8, _ value: UInt32) -> [UInt8] { [0, id] + ServerConnection.bytes(value) }
        let text = Array("x".utf8)
        switch kind {
        case .neverOpened, .closedStream:
            let id = kind == .closedStream ? closed : dice.pick([9999, 2, 4, Int32.max, 0])
            return dice.pick([
                frame(0, 1, id, text), frame(1, 5, id, fields), frame(3, 0, id, ServerConnection.bytes(7)),
                frame(8, 0, id, ServerConnection.bytes(1)), frame(1, 4, id, fields) + frame(0, 1, id, text),
            ])
        case .dataFirst: return frame(0, UInt8(dice.roll(0...1)), stream, text)
        case .headersTwice:
            let again = frame(1, UInt8(4 + dice.roll(0...1)), stream, ServerConnection.block([(":status", "500")]))
            return frame(1, 4, stream, fields) + again
        case .overPadded:
            let padding = UInt8(dice.roll(20...255))
            return dice.pick([
                frame(1, 4 | 8, stream, [padding] + fields), frame(0, 1 | 8, stream, [padding] + text),
                frame(1, 4 | 8, stream, []), frame(1, 4 | 32, stream, [0, 0]),
            ])
        case .continuationAlone: return frame(9, UInt8(dice.roll(0...1) * 4), dice.pick([stream, 0, 9999]), fields)
        case .continuationForEver:
            let more = frame(9, 0, stream, dice.pick([[], fields, ServerConnection.block([("x", "y")])]))
            return frame(1, 0, stream, fields) + (0..<dice.pick([1, 20, 500])).flatMap { _ in more }
        case .interleaved:
            return frame(1, 0, stream, fields)
                + dice.pick([
                    frame(6, 0, 0, dice.bytes(8)), frame(1, 5, stream, fields), frame(200, 0, 0, text),
                    frame(9, 4, closed, []),
                ])
        case .pushPromise:
            let path = "/" + String(repeating: "9", count: dice.pick([1, 25, 3000]))
            let request = ServerConnection.block([
                (":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", path),
            ])
            let promised = ServerConnection.bytes(UInt32(dice.pick([2, 3, 0, Int(stream)])))
            return frame(5, 4, dice.pick([stream, 0, 2, closed]), promised + request)
        case .settings:
            return dice.pick([
                frame(4, 0, 0, setting(2, UInt32(dice.roll(1...9)))), frame(4, 0, 0, setting(4, 0x8000_0000)),
                frame(4, 0, 0, setting(5, UInt32(dice.pick([0, 16_383, 16_777_216])))), frame(4, 0, 0, text),
                frame(4, 1, 0, setting(3, 1)), frame(4, 0, stream, setting(3, 1)), frame(4, 1, 0, []),
                frame(4, 0, 0, setting(8, 7)), frame(6, 0, stream, dice.bytes(8)), frame(6, 0, 0, text),
                frame(7, 0, stream, dice.bytes(8)), frame(7, 0, 0, text),
            ])
        case .windowUpdates:
            let id = dice.pick([0, stream])
            let most = frame(8, 0, id, ServerConnection.bytes(0x7FFF_FFFF))
            return dice.pick([
                frame(8, 0, id, ServerConnection.bytes(0)), most + most, frame(8, 0, id, text),
                most + frame(4, 0, 0, setting(4, 0x7FFF_FFFF)),
            ])
        case .hugeFields:
            let field = ServerConnection.block([("x-huge", String(repeating: "v", count: 16_000))])
            let parts = dice.pick([5, 64])
            return frame(1, 0, stream, fields)
                + (0..<parts).flatMap { frame(9, $0 == parts - 1 ? 4 : 0, stream, field) }
        case .bomb:  // One large entry of the table, named again and again.
            let value = [UInt8](repeating: 118, count: 4000)
            let entry = [0x40, 1, 120, 127] + [UInt8((4000 - 127) & 127 | 128), UInt8((4000 - 127) >> 7)] + value
            let block = fields + entry + [UInt8](repeating: 0xBE, count: dice.pick([30, 12_000]))
            return frame(1, 4, stream, block) + frame(0, 1, stream, text)
        case .statuses:
            let status = dice.pick([
                "abc", "20", "2000", "", "-20", "99999999999999999999", " 200", "000", "099", "101", "2 0", "20\u{0}",
            ])
            let block = dice.pick([
                ServerConnection.block([(":status", status)]), ServerConnection.block([("x", "no status")]),
                ServerConnection.block([(":status", "200"), (":status", "200")]),
                ServerConnection.block([("x", "y"), (":status", "200")]), ServerConnection.block([(":path", "/")]),
                ServerConnection.block([(":status", "200"), ("connection", "close")]),
                dice.bytes(40), [0x80], [0xFF],
            ])
            return dice.pick([frame(1, 5, stream, block), frame(1, 4, stream, block) + frame(0, 1, stream, text)])
        default:  // Lengths that lie about the body.
            let length = dice.pick(["0", "2", "-1", "99999999999999999999", "x", "1, 1", "+1", ""])
            var block = ServerConnection.block([(":status", "200"), ("content-length", length)])
            if dice.happens(onceIn: 3) { block += ServerConnection.block([("content-length", "1")]) }
            return frame(1, 4, stream, block) + frame(0, 1, stream, text)
        }
    }

    /// Returns the bytes that come before the client's first request.
    mutating func early() -> [UInt8] {
        func settings(_ payload: [UInt8]) -> [UInt8] { ServerConnection.frame(4, payload) }
        return dice.pick([
            dice.bytes(dice.roll(1...400)), Array("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n".utf8),
            ServerConnection.frame(7, [UInt8](repeating: 0, count: 8)), ServerConnection.frame(6, dice.bytes(8)),
            settings([0, 2, 0, 0, 0, 1]), settings([1, 2, 3]), settings([0, 4, 255, 255, 255, 255]), [], [0],
            settings([]) + ServerConnection.frame(7, [UInt8](repeating: 0, count: 8)),
            settings([]) + ServerConnection.frame(0, flags: 1, stream: 1, [1]),
            settings([]) + ServerConnection.frame(8, [0, 0, 0, 0]), settings([]) + dice.bytes(400),
        ])
    }
}
