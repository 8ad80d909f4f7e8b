/// A way in which a peer, or something between, can be broken: what all protocols share.
protocol Nonsense: Equatable, Sendable {
    /// The connection stays open, and nothing more comes.
    static var cutInSilence: Self { get }
    /// The connection ends without TLS having said so.
    static var cutWithoutGoodbye: Self { get }
    /// A record comes that is none.
    static var brokenTLS: Self { get }

    /// Whether the peer keeps to the protocol, so that every call must get its answer.
    var isLegal: Bool { get }
}

extension Nonsense {
    /// The deadline of each call, nil for the pool's: where nothing more comes it is short.
    var deadline: Duration? { self == .cutInSilence ? .milliseconds(300) : nil }
    /// Whether what was written before the trouble must have been told.
    var arrives: Bool { ![.cutInSilence, .cutWithoutGoodbye, .brokenTLS].contains(self) }
}
