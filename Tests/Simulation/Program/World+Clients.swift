import Foundation
import NIOCore
import NIOHTTP1
import ChaparComposition
import ChaparCore
import ChaparQueue

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer
@testable import ChaparStoreSQLite

extension World {
    /// Two owners of one delivery, as code that embeds a store may have: what the first one says after its claim is
    /// over changes nothing.
    func raceStaleOwner() {
        guard let store = incarnation?.store, incarnation?.gateway != nil else { return }
        Task {
            let id = store.makeID(recipients: 1)
            oracle.ignore(id.description)
            let now = store.time.steady
            let new = NewNotification(
                id: id,
                notification: PushNotification(title: "two owners"),
                record: NotificationRecord(
                    content: Array(#"{"content":{"title":"two owners"}}"#.utf8),
                    plans: [DeliveryPlan(["delta"])],
                    acceptedAt: now
                ),
                recipients: [.topic("t")],
                caller: "",
                expiresAt: now.addingTimeInterval(30),
                event: Array("{}".utf8)
            )
            let silent: @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8] = { _, _, _ in [] }
            guard case .accepted? = try? await store.enqueue(EnqueueBatch([new])),
                let first = try? await store.claim(backend: "delta", limit: 1, normal: 1, wait: .zero).first,
                first.notificationID == id,
                (try? await store.record([Resolution(of: first, .retry(at: store.time.steady, step: 0))], event: silent))
                    != nil,
                let second = try? await store.claim(backend: "delta", limit: 1, normal: 1, wait: .seconds(1)).first,
                second.id == first.id
            else { return }
            try? await store.record([Resolution(of: first, .end(.failed))], event: silent)
            guard (try? await store.record([Resolution(of: second, .end(.acceptedByPlatform))], event: silent)) != nil,
                let found = try? await store.notification(id)
            else { return }
            oracle.cover(.staleOwnerRefused)
            if found.counts != [.acceptedByPlatform: 1] {
                oracle.fail("an owner whose claim was over ended a delivery: \(found.counts)")
            }
        }
    }

    /// A value that goes with a call of the store, to see that the store releases it when it has answered.
    struct Load {
        fileprivate final class Object: Sendable {}
        fileprivate(set) weak var object: AnyObject?
    }

    /// More answered calls than these the store may not hold.
    static let mostLoads = 40

    /// Calls the store directly, as code does that embeds it: each call captures an object that must be released after
    /// the answer.
    func callStore(_ count: Int) {
        // Over a database a call may take seconds, and holds what it needs.
        guard let store = incarnation?.store, incarnation?.gateway != nil, database == nil else { return }
        for _ in 0..<count {
            Task {
                let load = Load.Object()
                let unknown = NotificationID(rawValue: 1)
                _ = try? await store.cancel(unknown) { _, _ in withExtendedLifetime(load) { [] } }
                loads.append(Load(object: load))
            }
        }
    }

    /// The steady time of the store, which goes on over restarts; nil while it is down.
    var steady: Date? { incarnation?.store?.time.steady }

    /// Asks the gateway; nil is no answer, since it was not there or went away.
    func ask(
        _ method: HTTPMethod,
        _ path: String,
        _ fields: [(String, String)] = [],
        _ body: String? = nil,
        _ done: @escaping (_ status: Int?, _ answer: JSONValue) -> Void
    ) {
        connections.removeAll { $0.isClosed }
        guard let connection = connections.first(where: { !$0.isBusy }) ?? connect() else { return done(nil, .null) }
        var status: Int?
        var bytes: [UInt8] = []
        connection.send(method, path, fields, body.map { Array($0.utf8) }) { part in
            switch part {
            case .head(let head): status = Int(head.status.code)
            case .body(let buffer): bytes += buffer.readableBytesView
            case .end:
                self.trace.record("\(method) \(path) \(status ?? 0) \(body?.suffix(40) ?? "")")
                let answer = bytes.isEmpty ? .null : try? JSONValue(parsing: bytes)
                if answer == nil { self.oracle.fail("\(method) \(path) is answered with what is no JSON") }
                done(status, answer ?? .null)
            }
        } onEnd: {
            done(nil, .null)
        }
    }

    private func connect() -> ClientConnection? {
        guard let connection = incarnation?.server?.connect() else { return nil }
        connections.append(connection)
        return connection
    }

    /// A client that listens to events.
    func listen(after number: Int64?, onPart: @escaping (HTTPClientResponsePart) -> Void, onEnd: @escaping () -> Void)
        -> ClientConnection?
    {
        guard let connection = incarnation?.server?.connect() else { return nil }
        let fields = number.map { [("Last-Event-ID", "\($0)")] } ?? []
        connection.send(.GET, "/v1/events", fields, nil, onPart: onPart, onEnd: onEnd)
        return connection
    }

    /// Connections break while their clients wait for answers, and that of the auditor.
    func cutConnections() {
        let busy = connections.filter(\.isBusy)
        if !busy.isEmpty || oracle.stream != nil { oracle.count(.cut) }
        for connection in busy { connection.close() }
        oracle.cutStream()
    }

    /// A client that opens a stream and never reads.
    func openIdleReader() {
        guard let connection = listen(after: 0, onPart: { _ in }, onEnd: {}) else { return }
        connection.isReading = false
        readers.append(connection)
    }

    /// The idle readers read again, or go.
    func releaseReaders(reading: Bool) {
        for reader in readers {
            if reading { reader.isReading = true } else { reader.close() }
        }
        readers = []
    }
}
