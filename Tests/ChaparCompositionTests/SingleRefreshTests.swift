import ChaparCore
import ChaparComposition
import ChaparTesting
import Synchronization
import Testing

@Suite("One refresh, whatever is wrapped around", .timeLimit(.minutes(1)))
struct SingleRefreshTests {
    /// A backend whose platform refuses the first access token, as plugins do it: refresh, and send once more.
    private struct Platform: PushBackend {
        let kind: BackendKind = "platform"
        let audience = BackendAudience(services: [.iOSAPNs])
        let tokens: AccessTokenCache
        let fetches: Mutexed

        final class Mutexed: Sendable {
            let count = Mutex(0)
            func next() -> Int {
                count.withLock { count in
                    count += 1
                    return count
                }
            }
        }

        init() {
            let fetches = Mutexed()
            self.fetches = fetches
            tokens = AccessTokenCache { () async throws(PushError) in
                let number = fetches.next()
                await Task.yield()
                return AccessToken(Secret("token-\(number)"), lifetime: .seconds(3600))
            }
        }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            await withDiscardingTaskGroup { tasks in
                for (row, request) in requests.enumerated() {
                    for index in request.recipients.indices {
                        tasks.addTask {
                            let outcome = await one()
                            report([DeliveryReport(request: row, recipient: index, outcome: outcome)])
                        }
                    }
                }
            }
        }

        private func one() async -> DeliveryOutcome {
            for _ in 0..<2 {
                guard let entry = try? await tokens.token() else { break }
                await Task.yield()  // The request is on its way.
                if entry.generation > 1 { return .accepted(Acceptance(platformID: "p", status: 200)) }
                await tokens.invalidate(generation: entry.generation)
            }
            return .refused(Refusal(.account, reason: "Unauthorized", status: 401, advice: .parkBackend))
        }
    }

    private static let wrappings: [@Sendable (Platform) -> any PushBackend] = [
        { $0 }, { RetryingBackend($0, time: SystemTime()) }, { $0.bounded(to: 1_000) }, { $0.breaking() },
        { $0.paced(Pacing(perSecond: 1_000_000)) }, { FallbackBackend([NamedBackend("one", $0)], time: SystemTime()) },
        { FanOutBackend([NamedBackend("one", $0)], time: SystemTime()) },
        {
            let inner = RetryingBackend($0, time: SystemTime()).bounded(to: 500).breaking()
            return FallbackBackend([NamedBackend("one", inner)], time: SystemTime())
        },
    ]

    @Test("A thousand concurrent sends that are refused cause one refresh", arguments: wrappings.indices)
    func oneRefresh(_ number: Int) async {
        let platform = Platform()
        let backend = Self.wrappings[number](platform)
        let accepted = await withTaskGroup(of: Bool.self) { tasks in
            for index in 0..<1_000 {
                tasks.addTask {
                    let recipient = Recipient.token(DeviceToken("t\(index)", service: .iOSAPNs))
                    return await backend.send(PushNotification(), to: [recipient])[0].isAccepted
                }
            }
            return await tasks.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(accepted == 1_000)
        #expect(platform.fetches.count.withLock { $0 } == 2, "the first token and one refresh")
    }
}
