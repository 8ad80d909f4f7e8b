import Foundation
import ChaparTesting

/// The ways in which a client, or something before it, can be broken or mean harm.
enum Hostility: Int, CaseIterable {
    // What does not come to its end.
    case silence, slowHead, slowBody, slowChunks, endlessHead, endlessChunks, endlessExtension, endlessTrailers
    // What two readers may take for different requests.
    case twoLengths, lengthAndChunks, hiddenChunks, lengthForms, chunkSizes, chunkEnds
    // What no head may hold.
    case bareLineFeeds, fields, hugeHead, manyFields, targets, methods, versions
    // Legal, if odd: all of it is answered.
    case flood, pieces, spaces, expect
    // What ends where it should not, or begins something else.
    case halfClosed, cut, leaves, upgrade
    // Bytes.
    case noise, flippedBits, garbageInTLS
}

/// The writes of one broken client on its connection, which its number alone decides, and their permitted results.
///
/// The titles of its notifications tell what they are: `good SEED PLACE` is well-formed, `bad SEED` is part of what is
/// not, and `inner SEED` stands within the body of another request.
struct HostileCase: Sendable {
    /// The client's end when all is written.
    enum End { case waits, halfCloses, leaves }

    let seed: Int
    let kind: Hostility
    /// Whether it speaks TLS.
    let isEncrypted: Bool
    /// The pieces that are written, in order.
    private(set) var pieces: [[UInt8]] = []
    /// The bytes that are then written again and again, until the connection ends.
    private(set) var again: [UInt8] = []
    /// The time between two of them.
    private(set) var pause = Duration.zero
    private(set) var end = End.waits
    /// How many well-formed notifications were written, all of them before anything else.
    private(set) var good = 0
    /// Whether bits may have been changed in the well-formed ones.
    private(set) var isObscure = false
    /// The most answers.
    private(set) var answers = 0

    private var dice: Dice

    init(seed: Int) {
        self.seed = seed
        let kind = Hostility.allCases[seed % Hostility.allCases.count]
        var dice = Dice(seed: seed)
        isEncrypted = dice.happens(onceIn: 3) || kind == .garbageInTLS
        (self.kind, self.dice) = (kind, dice)
        compose()
    }

    // MARK: Requests

    private func body(_ title: String) -> String {
        #"{"to":{"tokens":[{"token":"4f1c","service":"ios-apns"}]},"content":{"title":"\#(title) ."}}"#
    }

    /// A whole request; without `fields` one of a known length.
    private func post(_ title: String, _ fields: String? = nil) -> String {
        let body = body(title)
        return "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + (fields ?? "Content-Length: \(body.utf8.count)\r\n") + "\r\n" + (fields == nil ? body : "")
    }

    private var inner: String { post("inner \(seed)") }

    private mutating func write(_ text: String, _ cut: Dice.Cut? = nil) {
        pieces += dice.cut(Array(text.utf8), cut)
    }

    /// Well-formed requests, some of which go the long way.
    private mutating func writeGood(_ count: Int, _ cut: Dice.Cut? = nil) {
        var text = ""
        for _ in 0..<count {
            let title = "good \(seed) \(good)"
            let body = body(title)
            let chunks = "\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
            let plain = "Content-Length: \(body.utf8.count)\r\n"
            text += dice.pick([
                post(title), post(title, plain + "Expect: nothing\r\n") + body, post(title, plain + "X:\r\n") + body,
                post(title, "Transfer-Encoding: \(dice.pick(["chunked", "Chunked"]))\r\n") + chunks,
            ])
            good += 1
        }
        answers += count
        if count > 0 { write(text, cut) }
    }

    /// A request that no reader may take for one: what comes of it is one answer at most.
    private mutating func writeBad(_ text: String) {
        answers += 1
        write(text)
    }

    private func chunk(_ text: String) -> String { "\(String(text.utf8.count, radix: 16))\r\n\(text)\r\n" }

    // MARK: Cases

    private mutating func compose() {
        if ![.flood, .pieces, .garbageInTLS].contains(kind) { writeGood(dice.roll(0...2)) }
        switch kind {
        case .silence, .slowHead, .slowBody, .slowChunks, .endlessHead, .endlessChunks, .endlessExtension,
            .endlessTrailers:
            composeEndless()
        case .twoLengths, .lengthAndChunks, .hiddenChunks, .lengthForms, .chunkSizes, .chunkEnds: composePairs()
        case .bareLineFeeds, .fields, .hugeHead, .manyFields, .targets, .methods, .versions: composeHeads()
        case .flood, .pieces, .spaces, .expect: composeLegal()
        case .halfClosed, .cut, .leaves, .upgrade: composeEnds()
        case .noise, .flippedBits, .garbageInTLS: composeBytes()
        }
    }

    private mutating func composeEndless() {
        pause = .milliseconds(20)
        answers += 1
        let path = dice.pick(["POST /v1/notifications", "POST /v1/notifications/batch", "PUT /v1/devices/d"])
        let head = "\(path) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        let length = "Content-Length: \(dice.pick([5000, 100_000, 9_000_000]))\r\n\r\n"
        let chunked = "Transfer-Encoding: chunked\r\n\r\n"
        switch kind {
        case .silence:
            let whole = head + length + "{"
            write(String(whole.prefix(dice.roll(0...whole.count))))
        case .slowHead:
            write(head + "X-Slow: ")
            again = Array("x".utf8)
        case .slowBody:
            write(head + length)
            again = Array(" ".utf8)
        case .slowChunks:
            write(head + chunked)
            again = Array("1\r\n \r\n".utf8)
        case .endlessHead:
            pause = .milliseconds(5)
            write(head)
            again = Array("X-More: \(String(repeating: "y", count: 1000))\r\n".utf8)
        case .endlessChunks:
            pause = .milliseconds(5)
            write(head + chunked)
            again = Array(chunk(String(repeating: " ", count: dice.pick([1, 1000, 60_000]))).utf8)
        case .endlessExtension:
            pause = .milliseconds(5)
            write(head + chunked + "1;")
            again = Array(String(repeating: "x", count: 10_000).utf8)
        default:
            pause = .milliseconds(5)
            write(head + chunked + "0\r\n")
            again = Array("X-More: \(String(repeating: "y", count: 1000))\r\n".utf8)
        }
    }

    private mutating func composePairs() {
        let body = body("bad \(seed)")
        let count = body.utf8.count
        // By its length the inner request is a body, by its chunks it is a request; or the other way round.
        let hidden = "0\r\n\r\n\(inner)"
        let shown = chunk(inner) + "0\r\n\r\n"
        let size = String(inner.utf8.count, radix: 16).utf8.count + 2
        let (pair, length) = dice.pick([(hidden, hidden.utf8.count), (shown, size)])
        switch kind {
        case .twoLengths:
            let (one, other) = dice.pick([(count, count + inner.utf8.count), (count + inner.utf8.count, count)])
            let form = dice.pick([
                "Content-Length: \(one)\r\nContent-Length: \(other)\r\n", "Content-Length: \(one), \(other)\r\n",
                "Content-Length: \(one)\r\ncontent-length: \(other)\r\n",
                "Content-Length: \(one)\r\nX: y\r\nContent-Length: \(other)\r\n",
            ])
            writeBad(post("", form) + body + inner)
        case .lengthAndChunks:
            let fields = ["Content-Length: \(length)\r\n", "Transfer-Encoding: chunked\r\n"]
            writeBad(post("", (dice.happens(onceIn: 2) ? fields : fields.reversed()).joined()) + pair)
        case .hiddenChunks:
            let form = dice.pick([
                "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding: xchunked",
                "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity",
                "Transfer-Encoding: \u{B}chunked", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding\r\n: chunked",
                "X: y\nTransfer-Encoding: chunked", " Transfer-Encoding: chunked", "Transfer-Encoding: \"chunked\"",
                "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked\u{0}",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked, chunked",
                "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding: \u{A0}chunked",
            ])
            writeBad(post("", "Content-Length: \(length)\r\n\(form)\r\n") + pair)
        case .lengthForms:
            let form = dice.pick([
                "+\(count)", "-\(count)", "0x\(String(count, radix: 16))", "\(count) \(count)", "\(count)\u{0}", "",
                "99999999999999999999", "18446744073709551616", "9223372036854775808", "\(count).0", "\(count);",
                "\u{663}", "\(count)\n", "\(count),",
            ])
            writeBad(post("", "Content-Length: \(form)\r\n") + body + inner)
        case .chunkSizes:
            let hex = String(count, radix: 16)
            let form = dice.pick([
                "+\(hex)", "-\(hex)", " \(hex)", "\(hex) ", "0x\(hex)", "FFFFFFFFFFFFFFFFF", "10000000000000000", "g",
                "7FFFFFFFFFFFFFFF", "", "\(hex);\u{0}", "\(hex)\t", "\(hex)_", "\(hex),", "FFFFFFFFFFFFFFFF",
            ])
            writeBad(post("", "Transfer-Encoding: chunked\r\n") + "\(form)\r\n\(body)\r\n0\r\n\r\n\(inner)")
        default:
            let hex = String(count, radix: 16)
            let form = dice.pick([
                "\(hex)\n\(body)\r\n0\r\n\r\n", "\(hex)\r\(body)\r\n0\r\n\r\n", "\(hex)\r\n\(body)\n0\r\n\r\n",
                "\(hex)\r\n\(body)0\r\n\r\n", "\(hex)\r\n\(body)\r\n0\n\n", "\(hex)\r\n\(body)xx\r\n0\r\n\r\n",
                "\(hex);a\nb\r\n\(body)\r\n0\r\n\r\n", "\(hex)\r\n\(body)\r\n0\r\nX: y\n\r\n",
                "\(hex)\r\n\(body)\r\n0\r\nbad trailer\r\n\r\n",
            ])
            writeBad(post("", "Transfer-Encoding: chunked\r\n") + form + inner)
        }
    }

    private mutating func composeHeads() {
        let body = body("bad \(seed)")
        let length = "Content-Length: \(body.utf8.count)\r\n"
        switch kind {
        case .bareLineFeeds:
            let whole = post("bad \(seed)")
            let place = dice.roll(0...4)
            var lines = whole.components(separatedBy: "\r\n")
            lines[place] += "\n" + lines.remove(at: place + 1)
            writeBad(lines.joined(separator: "\r\n") + inner)
        case .fields:
            let form = dice.pick([
                "no colon", ": nameless", "na me: x", "x : y", "x: \u{0}", "x: a\r\n folded: b", "x: y\rz", "x\u{0}: y",
                "x\u{7F}: y", "x: \u{1}", "é: y", "x(: y", "Host: a\u{0}b", "\u{0}",
            ])
            writeBad(post("", form + "\r\n" + length) + body + inner)
        case .hugeHead:
            let size = dice.pick([81 << 10, 200 << 10, 1 << 20])
            let form = dice.pick(["X: \(String(repeating: "v", count: size))", String(repeating: "n", count: size)])
            writeBad(post("", form + "\r\n" + length) + body + inner)
        case .manyFields:
            let fields = (0..<dice.pick([1100, 5000])).map { "x-\($0): y\r\n" }.joined()
            writeBad(post("", fields + length) + body + inner)
        case .targets:
            let form = dice.pick([
                "example.com:443", "*", "", "?", "#", "//", "/\u{0}", "/ /", "/%", "/%00", "/..;/", "/\u{7F}", "/é",
                "http://", "http:///v1/notifications", "https://evil.example/v1/notifications", "/v1/notifications ",
                "/v1/notifications/..%2f", "/v1//notifications",
                "/v1/notifications?\(String(repeating: "a=b&", count: 500))",
                "/" + String(repeating: "a/", count: 20_000), String(repeating: "x", count: 90_000),
                "/v1/notifications/" + String(repeating: "%CC%81", count: 5000),
            ])
            let method = dice.pick(["GET", "POST", "DELETE", "OPTIONS"])
            writeBad(
                "\(method) \(form) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(length)\r\n\(body)\(inner)"
            )
        case .methods:
            let form = dice.pick([
                "CONNECT", "TRACE", "PRI", "post", "POST\u{0}", "", "X", String(repeating: "M", count: 10_000), "PO ST",
                "QUERY", "SOURCE", "\r\n\r\n\r\nPOSTE",
            ])
            writeBad("\(form) /v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(length)\r\n\(body)\(inner)")
        default:
            let form = dice.pick([
                "HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/9.9", "HTTP/11.1", "HTTP/1.1.1", "http/1.1", "", "HTTP/",
                "ICE/1.0",
                "HTTP/-1.1", "RTSP/1.0", "HTTP/1.1 x",
            ])
            let whole = "POST /v1/notifications \(form)\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writeBad(whole + "Connection: close\r\n\(length)\r\n\(body)\(inner)")
        }
    }

    private mutating func composeLegal() {
        end = dice.pick([.waits, .halfCloses])
        switch kind {
        case .flood: writeGood(dice.roll(20...200), dice.pick([.nowhere, .somewhere]))
        case .pieces: writeGood(dice.roll(1...3), .everywhere)
        case .spaces:
            write(String(repeating: "\r\n", count: dice.roll(0...3)))
            writeGood(1)
        default:
            let title = "good \(seed) \(good)"
            good += 1
            answers += 1
            let body = body(title)
            write(post(title, "Content-Length: \(body.utf8.count)\r\nExpect: 100-continue\r\n") + body)
        }
    }

    private mutating func composeEnds() {
        switch kind {
        case .halfClosed, .cut, .leaves:
            end = kind == .leaves ? .leaves : .halfCloses
            answers += 1
            // What is missing is part of the head or of the body, and at least the end of the JSON.
            let whole = post("bad \(seed)")
            if kind != .halfClosed { write(String(whole.prefix(dice.roll(1...whole.count - 3)))) }
        default:
            let fields = dice.pick([
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
                "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            ])
            let title = "good \(seed) \(good)"
            good += 1
            answers += 1
            let body = body(title)
            write(post(title, fields + "Content-Length: \(body.utf8.count)\r\n") + body)
            if dice.happens(onceIn: 2) { (again, pause) = (dice.bytes(10_000), .milliseconds(5)) }
        }
    }

    private mutating func composeBytes() {
        switch kind {
        case .noise:
            answers += 1
            pieces += dice.cut([UInt8(ascii: "\u{1}")] + dice.bytes(dice.roll(1...3000)))
        case .flippedBits:
            isObscure = true
            writeGood(dice.roll(1...5))
            pieces = dice.cut(dice.flip(pieces.flatMap { $0 }, from: 0))
            answers += 1
        default:
            // Instead of TLS, or after the beginning of a handshake.
            let hello: [UInt8] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03]
            pieces = dice.pick([
                [Array(inner.utf8)], [dice.bytes(dice.roll(1...2000))], [hello], [hello + dice.bytes(600)],
                [[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x28]], [],
            ])
            end = dice.pick([.waits, .halfCloses])
        }
    }
}
