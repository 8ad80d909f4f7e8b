import Foundation
import ChaparComposition
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@Suite("Chain of token providers", .timeLimit(.minutes(1)))
struct TokenProviderChainTests {
    /// An app whose answers a test decides, which counts what it is asked.
    private final class App: Sendable {
        enum Mood: Sendable { case gives(String), hasNone, fails, hangs, isDeaf }

        struct State {
            var moods: [TokenService: [Mood]] = [:]
            var asked: [TokenService] = []
            var deleted: [DeviceToken] = []
            var hanging: [CheckedContinuation<Void, Never>] = []
            var underWay = 0
        }

        let state = Mutex(State())

        var asked: [TokenService] { state.withLock { $0.asked } }
        var underWay: Int { state.withLock { $0.underWay } }

        /// Sets what a service's provider does, call by call; the last again and again.
        func set(_ service: TokenService, _ moods: Mood...) { state.withLock { $0.moods[service] = moods } }

        /// Lets those come back who never would.
        func release() {
            let hanging = state.withLock { state in
                defer { state.hanging = [] }
                return state.hanging
            }
            for continuation in hanging { continuation.resume() }
        }

        func provider(_ service: TokenService) -> any TokenProvider { Provider(service: service, app: self) }
        func deletingProvider(_ service: TokenService) -> any TokenProvider { Deleting(service: service, app: self) }

        fileprivate func token(_ service: TokenService) async throws(PushError) -> DeviceToken? {
            let mood = state.withLock { state in
                state.asked.append(service)
                state.underWay += 1
                let moods = state.moods[service] ?? [.hasNone]
                if moods.count > 1 { state.moods[service]?.removeFirst() }
                return moods[0]
            }
            defer { state.withLock { $0.underWay -= 1 } }
            switch mood {
            case .gives(let text): return DeviceToken(text, service: service)
            case .hasNone: return nil
            case .fails: throw PushError(.unavailable, "down")
            case .hangs:
                try? await ManualTime().sleep(for: .seconds(3600))  // Until it is cancelled.
                return nil
            case .isDeaf:
                await withCheckedContinuation { continuation in state.withLock { $0.hanging.append(continuation) } }
                return nil
            }
        }
    }

    private struct Provider: TokenProvider {
        let service: TokenService
        let app: App
        func token() async throws(PushError) -> DeviceToken? { try await app.token(service) }
        func validate(_ text: String) throws(InvalidToken) -> DeviceToken { DeviceToken(text, service: service) }
    }

    private struct Deleting: TokenDeleting {
        let service: TokenService
        let app: App
        func token() async throws(PushError) -> DeviceToken? { try await app.token(service) }
        func validate(_ text: String) throws(InvalidToken) -> DeviceToken { DeviceToken(text, service: service) }
        func delete(_ token: DeviceToken) async throws(PushError) {
            app.state.withLock { state in
                state.deleted.append(token)
                state.moods[service] = [.gives("new")]
            }
        }
    }

    private static func chain(
        _ app: App,
        deadline: Duration = .seconds(10),
        tries: Int = 1,
        memory: (any TokenMemory)? = nil,
        time: any TimeSource = SystemTime(),
        announce: (@Sendable (TokenAnswer) -> Void)? = nil
    ) -> TokenProviderChain {
        TokenProviderChain(
            [app.provider(.iOSAPNs), app.deletingProvider(.iOSFirebase), app.deletingProvider(.iOSHuawei)],
            deadline: deadline,
            tries: tries,
            memory: memory,
            time: time,
            announce: announce
        )
    }

    @Test("The default order is Apple, Firebase, Huawei, and the first that has a token gives it")
    func order() async {
        let app = App()
        app.set(.iOSFirebase, .gives("f"))
        app.set(.iOSHuawei, .gives("h"))
        let answer = await Self.chain(app).current()
        #expect(answer.token == DeviceToken("f", service: .iOSFirebase))
        #expect(answer.passedOver == [TokenAnswer.PassedOver(.iOSAPNs, .none)])
        #expect(app.asked == [.iOSAPNs, .iOSFirebase])
    }

    @Test("A provider that fails, has none or gives nothing in its text is passed over, and none at all is nil")
    func passesOver() async {
        let app = App()
        app.set(.iOSAPNs, .fails)
        app.set(.iOSFirebase, .gives(""))
        let answer = await Self.chain(app).current()
        #expect(answer.token == nil && !answer.isUpdate)
        #expect(answer.passedOver.map(\.reason) == [.failed(.unavailable), .none, .none])
    }

    @Test("A provider that has none at first is asked three times, a second apart")
    func tries() async {
        let app = App()
        app.set(.iOSAPNs, .hasNone, .fails, .gives("a"))
        let time = InstantTime()
        let start = time.now
        let answer = await Self.chain(app, deadline: .seconds(3600), tries: 3, time: Patient(time)).current()
        #expect(answer.token?.value == "a")
        #expect(app.asked.count == 3)
        #expect(time.now.timeIntervalSince(start) == 2)
    }

    /// Waits of up to a second are over at once, longer ones (deadlines) never.
    private struct Patient: TimeSource {
        let time: InstantTime
        init(_ time: InstantTime) { self.time = time }
        var now: Date { time.now }
        func sleep(for duration: Duration) async throws {
            if duration <= .seconds(1) { return try await time.sleep(for: duration) }
            try await ManualTime().sleep(for: duration)
        }
    }

    @Test("A provider that never answers is left behind, cancelled, and asked again only when it has come back")
    func leavesBehind() async {
        let app = App()
        app.set(.iOSAPNs, .isDeaf)
        app.set(.iOSFirebase, .gives("f"))
        let time = ManualTime()
        let chain = Self.chain(app, deadline: .seconds(10), time: time)
        let first = Task { await chain.current() }
        while app.underWay == 0 || time.sleeping == 0 { await Task.yield() }
        time.advance(by: .seconds(10))
        #expect(await first.value.passedOver.map(\.reason) == [.timeout])
        for _ in 0..<100 {
            let answer = await chain.current()
            #expect(answer.token?.value == "f")
            #expect(answer.passedOver.map(\.reason) == [.stillBusy])
        }
        #expect(app.underWay == 1, "one call of a provider at most")
        app.set(.iOSAPNs, .gives("a"))
        app.release()
        while await chain.current().token?.value != "a" { await Task.yield() }
        #expect(app.underWay == 0)
    }

    @Test("A provider that heeds its cancellation is gone at once")
    func cancels() async {
        let app = App()
        app.set(.iOSAPNs, .hangs)
        let chain = Self.chain(app, deadline: .milliseconds(20))
        _ = await chain.current()
        while app.underWay > 0 { await Task.yield() }
    }

    private final class Counter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }
        func add() { value.withLock { $0 += 1 } }
    }

    @Test("A thousand callers share one search")
    func shared() async {
        let app = App()
        app.set(.iOSAPNs, .isDeaf)
        app.set(.iOSFirebase, .gives("f"))
        let chain = Self.chain(app)
        let arrived = Counter()
        let callers = Task {
            await withTaskGroup(of: DeviceToken?.self) { group in
                for _ in 0..<1_000 {
                    group.addTask {
                        arrived.add()
                        return await chain.token()
                    }
                }
                return await group.reduce(into: Set<DeviceToken?>()) { $0.insert($1) }
            }
        }
        while app.underWay == 0 || arrived.count < 1_000 { await Task.yield() }
        for _ in 0..<100 { _ = await chain.order }  // Behind those who have arrived.
        app.set(.iOSAPNs, .hasNone)
        app.release()
        #expect(await callers.value == [DeviceToken("f", service: .iOSFirebase)])
        #expect(app.asked.filter { $0 == .iOSAPNs }.count < 100, "only callers that come too late begin another")
    }

    @Test("The order can be changed while the chain runs; a wrong one changes nothing")
    func reorders() async throws {
        let app = App()
        for service in TokenProviderChain.defaultOrder { app.set(service, .gives(service.rawValue)) }
        let chain = Self.chain(app)
        #expect(await chain.token()?.service == .iOSAPNs)
        try await chain.setOrder([.iOSHuawei, .iOSAPNs])
        #expect(await chain.token()?.service == .iOSHuawei)
        for wrong in [[], [TokenService(rawValue: "ios-pigeon")], [.iOSAPNs, .iOSAPNs]] {
            await #expect(throws: PushError.self) { try await chain.setOrder(wrong) }
        }
        #expect(await chain.order == [.iOSHuawei, .iOSAPNs])
        try await chain.setOrder([.iOSFirebase])
        app.set(.iOSFirebase, .hasNone)
        #expect(await chain.token() == nil, "what the order does not name is not asked")
    }

    @Test("A change while a search is under way holds for later callers at once")
    func reordersDuringSearch() async throws {
        let app = App()
        app.set(.iOSAPNs, .isDeaf)
        app.set(.iOSHuawei, .gives("h"))
        app.set(.iOSFirebase, .gives("f"))
        let announced = Mutex<[DeviceToken?]>([])
        let chain = Self.chain(app) { answer in announced.withLock { $0.append(answer.token) } }
        let early = Task { await chain.token() }
        while app.underWay == 0 { await Task.yield() }
        try await chain.setOrder([.iOSHuawei])
        #expect(await chain.token()?.value == "h")
        app.release()
        #expect(await early.value != nil)
        #expect(announced.withLock { $0.map { $0?.value } } == ["h"], "a search that was overtaken announces nothing")
    }

    @Test("A token set by hand goes before all providers until it is taken back")
    func manual() async throws {
        let app = App()
        app.set(.iOSAPNs, .gives("a"))
        let chain = Self.chain(app)
        try await chain.setManual([0xAB, 0x01], service: .iOSFirebase)
        let answer = await chain.current()
        #expect(answer.token == DeviceToken("ab01", service: .iOSFirebase) && answer.isManual)
        #expect(app.asked.isEmpty)
        #expect(await chain.forceUpdate().deletion == .nothing)
        await chain.setManual(nil)
        #expect(await chain.token()?.value == "a")
        await #expect(throws: InvalidToken.self) { try await chain.setManual(" ", service: .androidHuawei) }
    }

    @Test("Each new token is announced once, also another service's with the same text, also after a restart")
    func updates() async throws {
        let app = App()
        app.set(.iOSAPNs, .gives("x"))
        let memory = Memory()
        let announced = Mutex<[TokenAnswer]>([])
        let first = Self.chain(app, memory: memory) { answer in announced.withLock { $0.append(answer) } }
        #expect(await first.current().isUpdate)
        #expect(await first.current().isUpdate == false)
        app.set(.iOSAPNs, .hasNone)
        app.set(.iOSFirebase, .gives("x"))
        let moved = await first.current()
        #expect(moved.isUpdate && moved.previous == DeviceToken("x", service: .iOSAPNs))
        let restarted = Self.chain(app, memory: memory) { answer in announced.withLock { $0.append(answer) } }
        #expect(await restarted.current().isUpdate == false)
        #expect(announced.withLock { $0.map { $0.token?.service } } == [.iOSAPNs, .iOSFirebase])
    }

    private actor Memory: TokenMemory {
        private var token: DeviceToken?
        func lastToken() async -> DeviceToken? { token }
        func remember(_ token: DeviceToken?) async { self.token = token }
    }

    @Test("The last token is kept in a store of small values, byte for byte")
    func storedMemory() async {
        let store = MemoryState()
        let memory = StoredTokenMemory(store, name: "token")
        #expect(await memory.lastToken() == nil)
        let token = DeviceToken("a:b:c/ß", service: .androidFirebase)
        await memory.remember(token)
        #expect(await StoredTokenMemory(store, name: "token").lastToken() == token)
        #expect(await StoredTokenMemory(store, name: "other").lastToken() == nil)
        await memory.remember(nil)
        #expect(await memory.lastToken() == nil)
    }

    @Test("A forced update deletes the token, but never Apple's, and finds a new one")
    func forcedUpdate() async {
        let app = App()
        app.set(.iOSFirebase, .gives("old"))
        let chain = Self.chain(app)
        let renewal = await chain.forceUpdate()
        #expect(renewal.deletion == .deleted)
        #expect(renewal.answer.token == DeviceToken("new", service: .iOSFirebase) && renewal.answer.isUpdate)
        app.set(.iOSAPNs, .gives("a"))
        let apple = await chain.forceUpdate()
        #expect(apple.deletion == .unsupported && apple.answer.token?.value == "a")
        #expect(app.state.withLock { $0.deleted } == [DeviceToken("old", service: .iOSFirebase)])
    }

    @Test("Deleting says what cannot be deleted")
    func deleting() async throws {
        let app = App()
        app.set(.iOSAPNs, .gives("a"))
        app.set(.iOSFirebase, .gives("f"))
        let chain = Self.chain(app)
        await #expect { try await chain.delete(.iOSAPNs) } throws: { ($0 as? PushError)?.code == .unsupported }
        await #expect { try await chain.delete(.androidHuawei) } throws: { ($0 as? PushError)?.code == .invalidRequest }
        try await chain.delete(.iOSHuawei)
        try await chain.delete(.iOSFirebase)
        #expect(app.state.withLock { $0.deleted.map(\.value) } == ["f"])
    }

    @Test("A shutdown ends what is under way, and does not wait for what heeds nothing")
    func shutdown() async {
        let app = App()
        app.set(.iOSAPNs, .isDeaf)
        app.set(.iOSFirebase, .hangs)
        let chain = Self.chain(app, deadline: .milliseconds(20))
        _ = await chain.current()
        await chain.shutdown(grace: .milliseconds(20))
        while app.underWay > 1 { await Task.yield() }
        app.release()
        while app.underWay > 0 { await Task.yield() }
    }

    @Test("Providers can be added, replaced and removed")
    func providers() async {
        let app = App()
        app.set(.androidFirebase, .gives("r"))
        let chain = TokenProviderChain([], order: [.androidFirebase])
        #expect(await chain.token() == nil)
        await chain.setProvider(app.provider(.androidFirebase))
        #expect(await chain.token()?.value == "r")
        await chain.removeProvider(of: .androidFirebase)
        #expect(await chain.token() == nil)
    }
}
