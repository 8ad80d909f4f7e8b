import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@testable import ChaparStoreSQLite

@Suite("Small commits that wait for more", .timeLimit(.minutes(1)))
struct GroupCommitTests {
    @Test("After a commit with little in it nothing waits", arguments: [0, 1, 5])
    func little(last: Int) {
        let inbox = Inbox(maximumRows: 100)
        inbox.poke()
        var groupCommit = GroupCommit(longest: .milliseconds(10))
        groupCommit.lastRows = last
        var operations: [ChaparStoreSQLite.StoreCommand] = [.look]
        groupCommit.gather(&operations, from: inbox)
        #expect(operations.count == 1)
    }

    @Test("After a larger one everything that has come is taken, and an empty inbox ends the wait")
    func more() {
        let inbox = Inbox(maximumRows: 100)
        for _ in 0..<5 { inbox.poke() }
        var groupCommit = GroupCommit(longest: .seconds(1))
        groupCommit.lastRows = 6
        var operations: [ChaparStoreSQLite.StoreCommand] = [.look]
        groupCommit.gather(&operations, from: inbox)
        #expect(operations.count == 6)
    }

    @Test("With enough rows, or without time, nothing waits", arguments: [(96, 10), (1, 0)])
    func enough(recipients: Int, milliseconds: Int) {
        let inbox = Inbox(maximumRows: 1_000)
        inbox.poke()
        var groupCommit = GroupCommit(longest: .milliseconds(milliseconds))
        groupCommit.lastRows = 100
        let new = NewNotification(
            id: NotificationID(rawValue: 1),
            notification: PushNotification(),
            record: NotificationRecord(content: [], plans: [DeliveryPlan(["apns"])], acceptedAt: .now),
            recipients: (0..<recipients).map { .topic("\($0)") },
            caller: "",
            expiresAt: .now,
            event: []
        )
        let call = StorePort.Call(ticket: 0, deliveries: recipients)
        var operations = [
            ChaparStoreSQLite.StoreCommand.enqueue(EnqueueBatch([new]), .port(StorePort(inbox) { _ in }, call))
        ]
        groupCommit.gather(&operations, from: inbox)
        #expect(operations.count == 1)
    }
}
