import ChaparCore
import ChaparTesting
import Testing

/// Code of an application as its own test sees it.
@Suite("The sender for tests", .timeLimit(.minutes(1)))
struct RecordingSenderTests {
    /// Announces orders, and forgets phones that are gone.
    private struct Shop {
        let push: any PushSender

        func ship(order: Int, to phone: Recipient) async throws -> (isGone: Bool, isReplay: Bool) {
            let posted = try await push.post(
                PushNotification(title: .plain("Order \(order)")),
                to: [phone],
                via: "alerts",
                options: SendOptions(timeToLive: .seconds(60), idempotencyKey: "order-\(order)")
            )
            guard case .refused(let refusal)? = posted.outcomes?.first else { return (false, posted.isReplay) }
            return (refusal.kind == .token, posted.isReplay)
        }
    }

    private struct Down: Error {}

    private static let phone = Recipient.token("1", service: .iOSAPNs)

    @Test("keeps what it was given, and answers as the test says")
    func keeps() async throws {
        let push = RecordingSender { recipient in
            recipient == Self.phone
                ? .refused(Refusal(.token, reason: "Unregistered", advice: .never)) : .accepted(.init())
        }
        let shop = Shop(push: push)
        #expect(try await shop.ship(order: 42, to: Self.phone) == (true, false))
        #expect(try await shop.ship(order: 43, to: .token("2", service: .iOSAPNs)) == (false, false))
        #expect(push.posts.map(\.notification.title) == ["Order 42", "Order 43"])
        #expect(push.posts.map(\.recipients) == [[Self.phone], [.token("2", service: .iOSAPNs)]])
        #expect(push.posts.map(\.via) == ["alerts", "alerts"])
        #expect(push.posts[0].options == SendOptions(timeToLive: .seconds(60), idempotencyKey: "order-42"))
    }

    @Test("knows a repeated key, as a gateway does")
    func key() async throws {
        let push = RecordingSender.durable()
        let first = try await push.post(.init(title: "t"), to: [Self.phone], options: .init(idempotencyKey: "k"))
        let second = try await push.post(.init(title: "t"), to: [Self.phone], options: .init(idempotencyKey: "k"))
        let third = try await push.post(.init(title: "t"), to: [Self.phone])
        #expect((first.id, first.isReplay, first.outcomes) == ("1", false, nil))
        #expect((second.id, second.isReplay) == ("1", true))
        #expect(third.id != first.id && !third.isReplay)
        #expect(push.posts.count == 2)
    }

    @Test("throws what the test throws, and keeps nothing then")
    func fails() async throws {
        let push = RecordingSender { _ in throw Down() }
        await #expect(throws: Down.self) { try await Shop(push: push).ship(order: 42, to: Self.phone) }
        #expect(push.posts.isEmpty)
    }
}
