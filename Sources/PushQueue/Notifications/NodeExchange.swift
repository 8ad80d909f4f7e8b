public import Foundation
public import PushCore

/// A gateway that shares a store with others.
public struct StoreNode: Sendable, Hashable {
    /// Its number, which no other node ever has.
    public var number: Int64
    /// What it is called in its configuration.
    public var name: String
    /// When it began, as a time of day.
    public var startedAt: Date
    /// How long others take it for alive without a further sign; negative when they do not any more.
    public var leaseLeft: Duration
    /// Whether it is the one that was asked.
    public var isSelf: Bool
    /// The backends of its configuration; nil when it has not said so, as gateways of older versions do not.
    public var backends: Set<String>?

    /// Makes a value.
    public init(
        number: Int64,
        name: String,
        startedAt: Date,
        leaseLeft: Duration,
        isSelf: Bool,
        backends: Set<String>? = nil
    ) {
        self.backends = backends
        self.number = number
        self.name = name
        self.startedAt = startedAt
        self.leaseLeft = leaseLeft
        self.isSelf = isSelf
    }
}

/// A note of one gateway to the others that share its store.
public struct NodeNote: Sendable, Hashable {
    /// What it is about.
    public var topic: String
    /// What it says.
    public var body: [UInt8]

    /// Makes a note.
    public init(topic: String, body: [UInt8]) {
        self.topic = topic
        self.body = body
    }
}

/// A store that several gateways share, and through which they tell each other what is in nobody's row: a pause that a
/// platform asked for, answers that were counted.
///
/// Notes are not kept: one that is told while the database is away, or while another node is, may be lost.
public protocol NodeExchange: Sendable {
    /// The gateways that use the store now, in the order of their numbers.
    func nodes() async throws(StoreError) -> [StoreNode]

    /// Whether one of ``nodes()`` whose lease is over may be taken for dead at this moment. Cheap.
    ///
    /// Not before this gateway has renewed its own lease for a whole one without a gap: what kept it from that may have
    /// kept others as well.
    var mayJudge: Bool { get }

    /// Says which backends this gateway's configuration has, in place of what it said before; kept until it ends or is
    /// taken for dead.
    ///
    /// When it throws, it is said within a third of the node's lease.
    func declare(backends: Set<String>) async throws(StoreError)

    /// Tells all others, within about a second; does not wait, and does nothing while there are none.
    func tell(_ note: NodeNote)

    /// Gives what others tell to one more listener, each note once, those of one node in their order; it is called on
    /// any thread and must be quick.
    func hear(_ listener: @escaping @Sendable (NodeNote) -> Void)
}
