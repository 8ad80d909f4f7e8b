import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

/// Notifications of the server, and notes.
@Suite("Nodes of a PostgreSQL store tell each other what there is", .serialized, .timeLimit(.minutes(2)))
struct AnnouncerTests {
    @Test("A message accepted by one node wakes a waiting call of another, long before its next poll")
    func wakes() async throws {
        let nodes = try await Nodes.open(2, lease: .seconds(3))
        try await eventually("the first node knows of the other one") { nodes[0].core.announcer.hasPeers }
        var spans: [Duration] = []
        for number in 0..<9 {
            let waiting = Task { try await nodes[1].claim(backend: "apns", limit: 1, wait: .seconds(20)) }
            try await eventually("the call waits") { nodes[1].parked() == 1 }
            let begin = ContinuousClock.now
            try await nodes[0].accept(to: [.user("\(number)")])
            try await nodes[1].end(try await waiting.value)
            spans.append(begin.duration(to: .now))
        }
        #expect(spans.sorted()[4] < .milliseconds(300), "\(spans)")
        for node in nodes { await node.close() }
    }

    @Test("Each other node gets a node's notes once, in order", arguments: [false, true])
    func notes(pollsOnly: Bool) async throws {
        var options = try await TestServer.shared.options()
        options.nodeLease = .seconds(3)
        options.pollsOnly = pollsOnly
        var nodes: [PostgresStore] = []
        let heard = Heard()
        for number in 0..<3 {
            options.nodeName = "node-\(number)"
            let node = try await PostgresStore.open(options)
            node.hear { note in heard.notes.withLock { $0[number, default: []].append(note.topic) } }
            nodes.append(node)
        }
        #expect(try await nodes[1].nodes().map(\.name) == ["node-0", "node-1", "node-2"])
        #expect(try await nodes[1].nodes().map(\.isSelf) == [false, true, false])
        try await eventually("each node knows of the others") { nodes.allSatisfy(\.core.announcer.hasPeers) }
        for number in 0..<20 {
            nodes[0].tell(NodeNote(topic: "a\(number)", body: [1]))
            // So they are told in several transactions.
            guard number % 7 == 0 else { continue }
            try await eventually("note \(number) is written") {
                try await nodes[0].count("SELECT count(*) FROM chapar.notes") > number
            }
        }
        nodes[2].tell(NodeNote(topic: "b", body: []))
        try await eventually("all notes are heard", within: .seconds(10), every: .milliseconds(20)) {
            heard.notes.withLock { ($0[1]?.count ?? 0) >= 21 && ($0[2]?.count ?? 0) >= 20 }
        }
        // Each later read returns all notes of the last seconds: a note that is heard twice is heard before these.
        for node in [nodes[0], nodes[2]] { node.tell(NodeNote(topic: "end", body: [])) }
        try await eventually("the last notes are heard", within: .seconds(10), every: .milliseconds(20)) {
            let counts = heard.notes.withLock { notes in (0..<3).map { notes[$0, default: []].count { $0 == "end" } } }
            return counts == [1, 2, 1]
        }
        let all = heard.notes.withLock { $0.mapValues { topics in topics.filter { $0 != "end" } } }
        #expect(all[0] == ["b"])
        #expect(all[1]?.filter { $0 != "b" } == (0..<20).map { "a\($0)" })
        #expect(all[1]?.count == 21)
        #expect(all[2] == (0..<20).map { "a\($0)" })
        for node in nodes { await node.close() }
        #expect(all.count == 3)
    }

    @Test("Nodes tell each other also in a schema whose name is as long as can be")
    func longName() async throws {
        var options = try await TestServer.shared.options()
        options.schema += String(repeating: "x", count: 63 - options.schema.utf8.count)
        let channel = options.channel
        #expect(channel == options.schema)
        let listener = PostgresConnection(options, name: "listener")
        try await listener.session { (db) throws(PostgresError) in try db.perform("LISTEN \"\(channel)\"") }
        try await Nodes.use(1, options: options) { _ in
            let heard = try await listener.session { (db) throws(PostgresError) in
                try db.notifications(within: .seconds(10))
            }
            #expect(heard == [Announcer.Word.nodes.text])
        }
        await listener.close()
    }

    @Test("A commit announces at most once, a node at most every 50 ms, and a lone node nothing")
    func notifications() async throws {
        let options = try await TestServer.shared.options()
        let listener = PostgresConnection(options, name: "listener")
        func heard(for span: Duration) async throws -> [String] {
            var heard: [String] = []
            let end = ContinuousClock.now + span
            while ContinuousClock.now < end {
                heard += try await listener.session { (db) throws(PostgresError) in
                    try db.notifications(within: .milliseconds(100))
                }
            }
            return heard
        }
        try await Nodes.use(1, options: options) { nodes in
            try await listener.session { (db) throws(PostgresError) in try db.perform("LISTEN \"chapar.work\"") }
            try await nodes[0].accept(to: [.user("a")])
            #expect(try await heard(for: .seconds(1)).isEmpty)
            let other = try await PostgresStore.open(options)
            nodes[0].core.announcer.hasPeers = true
            async let texts = heard(for: .seconds(2))
            let start = ContinuousClock.now
            var commits = 0
            while start.duration(to: .now) < .seconds(1) {
                try await nodes[0].accept(to: [.user("b")], backend: commits % 2 == 0 ? "apns" : "fcm")
                commits += 1
            }
            let count = try await texts.count
            #expect(count > 2 && count <= 1_000 / 50 + 2, "\(count) of \(commits) commits")
            await other.close()
        }
        await listener.close()
        #expect(Announcer.messages(["e", "wapns", "wfcm"]) == ["e\nwapns\nwfcm"])
        let long = (0..<200).map { "w\($0)" + String(repeating: "x", count: 100) }
        let messages = Announcer.messages(long)
        #expect(messages.count == 4 && messages.allSatisfy { $0.utf8.count < 8_000 })
        #expect(messages.flatMap { $0.split(separator: "\n").map(String.init) } == long)
    }
}

private final class Heard: Sendable {
    let notes = Mutex<[Int: [String]]>([:])
}
