import Foundation
import Logging
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparDelivery
@testable import ChaparGateway

@Suite("The id of a receipt in a message", .timeLimit(.minutes(1)))
struct ReceiptMarksTests {
    /// A platform that accepts everything, and keeps the id that each recipient got.
    private final class Collector: PushBackend {
        let kind: BackendKind = "collector"
        let audience = BackendAudience(services: [.iOSAPNs])
        let batching: RequestBatching?
        let requests = Mutex<[[(recipient: String, id: String?)]]>([])

        init(_ batching: RequestBatching? = nil) { self.batching = batching }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            for (row, request) in requests.enumerated() {
                let id = request.notification.data["chapar_receipt"]?.stringValue
                self.requests.withLock { $0.append(request.recipients.map { ($0.recipient.storedForm, id) }) }
                for place in request.recipients.indices {
                    let outcome = DeliveryOutcome.accepted(Acceptance(status: 200))
                    report([DeliveryReport(request: row, recipient: place, outcome: outcome)])
                }
            }
        }
    }

    private static let recipients = (0..<3).map { Recipient.token(DeviceToken("t-\($0)", service: .iOSAPNs)) }

    /// Sends a notification to three tokens, and returns what each got, with what it means.
    private func sent(
        _ backend: Collector,
        isOn: Bool = true
    ) async throws -> [(recipient: String, subject: ReceiptSubject?, first: Int64)] {
        let rig = try await DispatcherRig(receipts: true)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        var id = NotificationID(rawValue: 0)
        try await rig.run(["a": backend]) {
            if isOn { $0.receipts[.default] = .init() }
        } _: {
            id = try await rig.accept(Self.recipients, plan: DeliveryPlan(["a"]))
            try await rig.expect(id, [.acceptedByPlatform: 3])
        }
        let keys = ReceiptKeys(rig.store)
        var found: [(recipient: String, subject: ReceiptSubject?, first: Int64)] = []
        for one in backend.requests.withLock({ $0 }).flatMap(\.self) {
            let text = one.id ?? ""
            let read = try await keys.read(text[...], of: [.default], at: rig.time.now)
            #expect((read == nil) == !isOn)
            found.append((one.recipient, read?.subject, id.rawValue))
        }
        await rig.store.close()
        return found.sorted { $0.recipient < $1.recipient }
    }

    @Test(
        "is that of its delivery where a platform takes a content for each message",
        arguments: [nil, RequestBatching(limit: 10, isMixed: true)]
    )
    func own(batching: RequestBatching?) async throws {
        let found = try await sent(Collector(batching))
        #expect(found.map(\.recipient) == Self.recipients.map(\.storedForm))
        let subjects = found.enumerated().map { $1.subject == .delivery($1.first + Int64($0)) }
        #expect(subjects == [true, true, true], "\(found)")
    }

    @Test("is one for the recipients of a request where a platform takes one content for them")
    func shared() async throws {
        let backend = Collector(RequestBatching(limit: 10, isMixed: false))
        let found = try await sent(backend)
        for request in backend.requests.withLock({ $0 }) {
            #expect(Set(request.map(\.id)).count == 1)
            let subjects = found.filter { one in request.contains { $0.recipient == one.recipient } }.map(\.subject)
            for subject in subjects where request.count > 1 {
                #expect(subject == .notification(found.first?.first ?? 0))
            }
        }
        #expect(backend.requests.withLock { $0.count } < 3, "they share requests")
    }

    @Test("is in no message of an app that does not ask for it, and no key is made")
    func optIn() async throws {
        let backend = Collector()
        let found = try await sent(backend, isOn: false)
        #expect(found.count == 3)
        #expect(backend.requests.withLock { $0.flatMap(\.self).allSatisfy { $0.id == nil } })
        #expect(backend.requests.withLock { $0.count } < 3, "recipients still share requests")
    }
}
