import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@testable import ChaparStoreSQLite

@Suite("The store's parts", .timeLimit(.minutes(1)))
struct PartTests {
    @Test("A sorted queue agrees with a sorted array", arguments: [1, 2, 3])
    func sortedQueue(seed: Int) throws {
        let backend = BackendQueue(name: "x")
        defer { withExtendedLifetime(backend) {} }
        let flow = Flow.sample(in: backend, deliveries: 10)
        let head = DeliveryHead(
            id: NotificationID(rawValue: 1),
            record: NotificationRecord(content: [], plans: [DeliveryPlan(["x"])], acceptedAt: Date()),
            expiresAt: Date()
        )
        var queue = SortedQueue()
        var model: [DueKey] = []
        var state = UInt64(seed)
        func random(_ bound: UInt64) -> Int64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int64((state >> 33) % bound)
        }
        for step in 0..<6_000 {
            switch random(8) {
            case 0..<4:
                let entry = Entry(
                    id: Int64(step),
                    head: head,
                    recipient: .everyone,
                    flow: flow,
                    due: Int64(step) / 7 + random(20)
                )
                queue.insert(entry)
                model.append(entry.key)
                model.sort()
            case 4..<6: #expect(queue.popFirst()?.key == (model.isEmpty ? nil : model.removeFirst()))
            case 6: #expect(queue.popLast()?.key == model.popLast())
            default:
                guard !model.isEmpty else { continue }
                let key = model.remove(at: Int(random(UInt64(model.count))))
                #expect(queue.remove(key)?.key == key)
                #expect(queue.remove(key) == nil)
            }
            #expect(queue.count == model.count && queue.first == model.first && queue.last == model.last)
        }
    }

    @Test("A large batch finds its way in beside small ones, and what waits has a bound in rows and in bytes")
    func inbox() {
        func batch(_ recipients: Int, content: Int = 10) -> ChaparStoreSQLite.StoreCommand {
            let now = Date(timeIntervalSince1970: 0)
            let new = NewNotification(
                id: NotificationID(rawValue: 1),
                notification: PushNotification(title: "a"),
                record: NotificationRecord(
                    content: Array(repeating: 1, count: content),
                    plans: [DeliveryPlan(["x"])],
                    acceptedAt: now
                ),
                recipients: Array(repeating: .everyone, count: recipients),
                caller: "",
                expiresAt: now,
                event: []
            )
            let port = StorePort(Inbox(maximumRows: 1)) { _ in }
            return .enqueue(EnqueueBatch([new]), .port(port, StorePort.Call(ticket: 0, deliveries: recipients)))
        }
        let rows = Inbox(maximumRows: 100)
        for (recipients, isAdmitted) in [(60, true), (5_000, true), (1, false)] {
            #expect((rows.admit(batch(recipients), key: nil) == .admitted) == isAdmitted, "\(recipients) recipients")
        }
        let taken = rows.drain(isHurried: true) ?? []
        rows.finish(taken.reduce(into: CommandSize()) { $0 += $1.size })
        #expect(rows.admit(batch(1), key: nil) == .admitted, "room comes back")
        let bytes = Inbox(maximumRows: 100, maximumBytes: 1 << 20)
        #expect(bytes.admit(batch(1, content: 600_000), key: nil) == .admitted)
        #expect(bytes.admit(batch(1), key: nil) == .full)
    }

    @Test("Events and leases come out of their packing as they went in")
    func packing() {
        let events: [[UInt8]] = [[], [1], Array(repeating: 7, count: 70_000), []]
        #expect(EventPacking.unpack(EventPacking.pack(events)) == events)
        #expect(EventPacking.unpack([2, 0, 0, 0, 8, 9, 9, 0, 0, 0, 1]) == [[8, 9]], "a torn row of the first form")
        let numbers: [Int64] = [0, 1, -1, .max, .min, 198_588_550_348_800_000]
        #expect(LeaseList.unpack(LeaseList.pack(numbers)) == numbers)
    }

    @Test("Events that look alike take little room and come out as they went in", arguments: [1, 2, 3] as [UInt64])
    func alike(seed: UInt64) {
        var state = seed
        func random(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
        let events = (0..<300).map { number -> [UInt8] in
            var event = Array(#"{"type":"delivery.accepted","notification":"059V1HM52","state":"sent"}"#.utf8)
            for _ in 0..<random(3 * Int(seed)) { event[random(event.count)] = UInt8(random(256)) }
            if number % 7 == 0 { event.append(contentsOf: Array(repeating: 1, count: 256 * (number % 3))) }
            return event
        }
        let packed = EventPacking.pack(events)
        #expect(EventPacking.unpack(packed) == events)
        #expect(packed.count < events.reduce(0) { $0 + $1.count } * 3 / 4)
        for length in stride(from: 0, to: packed.count, by: 13) {
            let found = EventPacking.unpack(Array(packed.prefix(length)))
            #expect(found.elementsEqual(events.prefix(found.count)), "a torn row gives what is whole")
        }
    }

    @Test("The collapse hash is the same in every process, and keeps recipient and id apart")
    func collapseHash() {
        #expect(CollapseHash.of([], "") == -5_808_391_946_409_677_970)
        #expect(CollapseHash.of(Array("ab".utf8), "c") != CollapseHash.of(Array("a".utf8), "bc"))
    }

    @Test("Every final state comes back from its number", arguments: DeliveryState.allCases)
    func stateCodes(state: DeliveryState) {
        #expect(DeliveryState(code: state.code) == (state.isFinal ? state : nil))
    }
}
