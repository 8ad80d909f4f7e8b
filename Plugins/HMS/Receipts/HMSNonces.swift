internal import Crypto
internal import Foundation
internal import Synchronization

/// The request bodies that came with each signed header field, remembered while the timestamp of the field is valid.
///
/// A field that comes again with the same body is a harmless repeat of the callback. With another body it is forged.
/// Memory is bounded: with more than ``capacity`` callbacks in that time, 166 a second, the oldest is forgotten early.
final class HMSNonces: Sendable {
    /// The most fields that are remembered, about 10 MiB.
    static let capacity = 100_000

    /// The first half of a SHA-256 digest.
    private struct Digest: Hashable {
        let high: UInt64
        let low: UInt64

        init(_ bytes: some DataProtocol) {
            let digest = Array(SHA256.hash(data: bytes).prefix(16))
            let half = { (part: ArraySlice<UInt8>) in part.reduce(0) { $0 << 8 | UInt64(truncatingIfNeeded: $1) } }
            high = half(digest[..<8])
            low = half(digest[8...])
        }
    }

    private struct Contents {
        var bodies: [Digest: Digest] = [:]
        var order: [(field: Digest, since: Date)] = []
        var start = 0
    }

    private let life: TimeInterval
    private let capacity: Int
    private let contents = Mutex(Contents())

    /// Remembers fields for `life` seconds.
    init(life: TimeInterval, capacity: Int = HMSNonces.capacity) {
        self.life = life
        self.capacity = capacity
    }

    /// The number of remembered fields.
    var count: Int { contents.withLock { $0.bodies.count } }

    /// Returns whether no other body came with this signed text, and remembers the body.
    func isFirstBody(_ body: [UInt8], of signed: Data, at now: Date) -> Bool {
        let (field, body) = (Digest(signed), Digest(body))
        return contents.withLock { contents in
            forget(&contents, now)
            if let before = contents.bodies[field] { return before == body }
            contents.bodies[field] = body
            contents.order.append((field, now))
            return true
        }
    }

    private func forget(_ contents: inout Contents, _ now: Date) {
        while contents.start < contents.order.count,
            contents.bodies.count >= capacity
                || abs(now.timeIntervalSince(contents.order[contents.start].since)) > life
        {
            contents.bodies[contents.order[contents.start].field] = nil
            contents.start += 1
        }
        if contents.start > contents.order.count / 2 {
            contents.order.removeFirst(contents.start)
            contents.start = 0
        }
    }
}
