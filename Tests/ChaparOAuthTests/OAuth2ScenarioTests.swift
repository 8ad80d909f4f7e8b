import Foundation
import ChaparCore
import ChaparOAuth
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

/// The scenarios of specs/oauth2-refresh.md section 18, over real sockets; counts are the server's.
@Suite("OAuth 2 refresh: concurrency", .timeLimit(.minutes(1)))
struct OAuth2ScenarioTests {
    @Test("A thousand requests that meet 401 cause one refresh, and all are answered")
    func singleFlight() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            let results = await harness.askAtOnce(1000)
            #expect(results == ["200": 1000])
            let counters = harness.server.counters
            #expect(counters.tokenRequests == 1, "one refresh for all")
            #expect((1...1000).contains(counters.refused), "somebody met the refusal, nobody twice")
            #expect(counters.apiRequests == 1000 + counters.refused, "at most two exchanges each")
            #expect(harness.hooks.notices.all.filter { $0 == "refreshed" }.count == 1)
        }
    }

    @Test("A thousand requests that have all met 401 share one refresh, and the second attempt of each is answered")
    func allRefused() async throws {
        try await OAuth2Harness.run { harness in
            let old = try await harness.strategy.authorization()
            harness.server.revokeAccessTokens()
            #expect(try await harness.statuses(of: 1000, old) == [401: 1000])
            let decisions = await withTaskGroup(of: AuthDecision.self) { tasks in
                for _ in 0..<1000 {
                    tasks.addTask { await harness.strategy.refused(old, status: 401, reason: nil) }
                }
                return await tasks.reduce(into: [AuthDecision]()) { $0.append($1) }
            }
            #expect(decisions.count == 1000 && decisions.allSatisfy { $0 == .retry })
            #expect(harness.server.counters.tokenRequests == 1, "exactly one refresh")
            let fresh = try await harness.strategy.authorization()
            #expect(try await harness.statuses(of: 1000, fresh) == [200: 1000])
            let counters = harness.server.counters
            #expect(counters.tokenRequests == 1 && counters.refused == 1000 && counters.apiRequests == 2000)
        }
    }

    @Test("A new credential that cannot be stored is used, told of, and stored later")
    func unsaved() async throws {
        let disk = FullDisk()
        try await OAuth2Harness.run(wrap: { disk.around($0) }) { harness in
            disk.isFull.withLock { $0 = true }
            harness.server.revokeAccessTokens()
            #expect(await harness.ask() == "200", "a full disk stops nobody")
            #expect(harness.events.all.contains(.storeFailed))
            #expect(harness.store.credential?.accessToken.reveal() == "at-1-sandbox", "the old one is still there")
            disk.isFull.withLock { $0 = false }
            harness.clock.advance(by: .seconds(2))
            #expect(await harness.ask() == "200")
            #expect(harness.store.credential?.accessToken.reveal() == "at-2-sandbox")
            #expect(harness.server.counters.tokenRequests == 1)
        }
    }

    @Test("Three answers in a row that are no credential are a matter for an operator, who is not asked for a log-in")
    func malformedForGood() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.answer(FaultAnswer(200, body: Array("<html>".utf8))))])
            for word in ["malformed_response", "malformed_response", "misconfigured"] {
                #expect(await harness.ask() == word)
                harness.clock.advance(by: .seconds(70))
            }
            #expect(harness.store.credential != nil)
            let before = harness.server.counters.tokenRequests
            #expect(await harness.ask() == "misconfigured")
            #expect(harness.server.counters.tokenRequests == before, "nobody is asked again")
        }
    }

    @Test("Two processes that share a file and both meet 401 ask the token endpoint once")
    func sharedFile() async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "oauth2-\(UUID())/credential.json").path
        defer { try? FileManager.default.removeItem(at: URL(filePath: path).deletingLastPathComponent()) }
        let file = FileCredentialStore(path: path)
        try await OAuth2Harness.run(wrap: { _ in file }) { harness in
            let first = harness.server.issue(at: harness.clock.now)
            #expect(try await file.save(first, expecting: nil) != nil)
            let other = try harness.secondProcess(FileCredentialStore(path: path))
            _ = try await (harness.strategy.authorization(), other.authorization())
            harness.server.revokeAccessTokens()
            let call = HTTPCall(HTTPCallTemplate(method: "POST"), path: "/v1/push", body: [])
            async let one = harness.ask()
            async let two = other.send(call, to: harness.endpoint, through: harness.pool).status
            #expect(await one == "200")
            #expect(try await two == 200)
            #expect(harness.server.counters.tokenRequests == 1, "the second takes what the first has stored")
            await other.shutdown()
        }
    }

    @Test("Two gateways that share a store and both meet 401 ask the token endpoint once")
    func sharedState() async throws {
        let state = MemoryState()
        try await OAuth2Harness.run(wrap: { _ in StateCredentialStore(state, name: "crm") }) { harness in
            let store = StateCredentialStore(state, name: "crm")
            #expect(try await store.save(harness.server.issue(at: harness.clock.now), expecting: nil) != nil)
            let other = try harness.secondProcess(store)
            _ = try await (harness.strategy.authorization(), other.authorization())
            harness.server.revokeAccessTokens()
            let call = HTTPCall(HTTPCallTemplate(method: "POST"), path: "/v1/push", body: [])
            async let one = harness.ask()
            async let two = other.send(call, to: harness.endpoint, through: harness.pool).status
            #expect(await one == "200")
            #expect(try await two == 200)
            #expect(harness.server.counters.tokenRequests == 1, "the second takes what the first has stored")
            await other.shutdown()
        }
    }

    @Test("A refused refresh token fails all who wait, empties the store, and is not sent again")
    func refusal() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.revokeRefreshTokens()
            let results = await harness.askAtOnce(100)
            #expect(results == ["reauthorization_required": 100])
            #expect(harness.server.counters.tokenRequests == 1)
            #expect(harness.server.counters.apiRequests <= 100)
            #expect(harness.store.credential == nil)
            let before = harness.server.counters
            #expect(await harness.ask() == "reauthorization_required")
            #expect(harness.server.counters == before, "request 101 fails without any network")
            await harness.strategy.shutdown()
            #expect(harness.hooks.notices.all == ["failed reauthorization_required 400", "log out"])
            #expect(harness.events.all.contains(.credentialDropped))
        }
    }

    @Test("A bare 401 of the token endpoint is a refusal too")
    func bareRefusal() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.answer(FaultAnswer(401)))])
            #expect(await harness.ask() == "reauthorization_required")
            #expect(harness.store.credential == nil)
        }
    }

    @Test("A token endpoint that is down is left alone for a while; the credential stays")
    func transient() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.answer(FaultAnswer(503)))])
            #expect(await harness.askAtOnce(100) == ["refresh_failed": 100])
            #expect(harness.server.counters.tokenRequests == 1)
            #expect(harness.store.credential != nil)
            #expect(await harness.ask() == "refresh_failed")
            #expect(harness.server.counters.tokenRequests == 1, "no request within the pause")
            harness.clock.advance(by: .seconds(2))
            harness.server.removeFaults()
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 2)
        }
    }

    @Test("Retry-After of the token endpoint wins over the list of pauses")
    func retryAfter() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.answer(FaultAnswer(429, retryAfter: 50)))])
            #expect(await harness.ask() == "refresh_failed")
            harness.server.removeFaults()
            harness.clock.advance(by: .seconds(49))
            #expect(await harness.ask() == "refresh_failed")
            harness.clock.advance(by: .seconds(2))
            #expect(await harness.ask() == "200")
        }
    }

    @Test("A late 401 of an old token causes no second refresh")
    func lateRefusal() async throws {
        try await OAuth2Harness.run { harness in
            let old = try await harness.strategy.authorization()
            harness.server.revokeAccessTokens()
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 1)
            let decision = await harness.strategy.refused(old, status: 401, reason: nil)
            #expect(decision == .retry)
            #expect(harness.server.counters.tokenRequests == 1)
            #expect(harness.events.all.contains(.retriedWithoutRefresh))
        }
    }

    @Test("A server that refuses everything gets two exchanges a request, and six refreshes are one too many")
    func noLoop() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.rules.refusesEverything = true
            for number in 1...5 {
                #expect(await harness.ask() == "rejected_after_refresh")
                #expect(harness.server.counters.apiRequests == 2 * number)
            }
            #expect(await harness.ask() == "excessive_refresh")
            #expect(harness.server.counters.tokenRequests == 5)
            harness.clock.advance(by: .seconds(31))
            harness.server.rules.refusesEverything = false
            #expect(await harness.ask() == "200")
        }
    }

    @Test("Requests that are refused while refreshes end are never forgotten")
    func noLostWakeUp() async throws {
        try await OAuth2Harness.run(adjust: { $0.maximumRefreshes = 1000 }) { harness in
            await withTaskGroup(of: Void.self) { tasks in
                tasks.addTask {
                    for _ in 0..<20 {
                        harness.server.revokeAccessTokens()
                        await Task.yield()
                        _ = await harness.ask()
                    }
                }
                for _ in 0..<20 {
                    tasks.addTask {
                        for _ in 0..<20 {
                            let result = await harness.ask()
                            #expect(result == "200" || result == "rejected_after_refresh", "\(result)")
                        }
                    }
                }
            }
            #expect(await harness.ask() == "200")
        }
    }

    @Test("A caller that stops waiting ends no other caller's wait", arguments: [1, 100])
    func cancellation(cancelled: Int) async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.delay(.milliseconds(200)))])
            let tasks = (0..<100).map { _ in Task { await harness.ask() } }
            while harness.server.counters.tokenRequests == 0 { await Task.yield() }
            for task in tasks.prefix(cancelled) { task.cancel() }
            var results: [String: Int] = [:]
            for task in tasks { results[await task.value, default: 0] += 1 }
            #expect(results["200", default: 0] >= 100 - cancelled)
            #expect(harness.server.counters.tokenRequests == 1)
            #expect(harness.server.counters.refreshed == 1)
            #expect(
                harness.store.credential?.accessToken.reveal() == "at-2-sandbox",
                "the refresh is kept all the same"
            )
        }
    }

    @Test("A token that ends soon is refreshed before it is used")
    func early() async throws {
        try await OAuth2Harness.run { harness in
            #expect(await harness.ask() == "200")
            harness.clock.advance(by: .seconds(3600 - 30))
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 1)
            #expect(harness.server.counters.refused == 0, "no request met 401")
            #expect(await harness.strategy.counters.early == 1)
        }
    }

    @Test("The early window of a short token is a tenth of its life")
    func shortLife() async throws {
        var rules = OAuth2Simulator.Rules()
        rules.lifetime = 30
        try await OAuth2Harness.run(rules) { harness in
            #expect(await harness.ask() == "200")
            harness.clock.advance(by: .seconds(20))
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 0)
            harness.clock.advance(by: .seconds(8))
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 1)
        }
    }

    @Test("When an early refresh fails, a token that still lives is used; one that does not is an error")
    func earlyFailure() async throws {
        try await OAuth2Harness.run { harness in
            #expect(await harness.ask() == "200")
            harness.server.add([tokenFault(.answer(FaultAnswer(503)))])
            harness.clock.advance(by: .seconds(3600 - 40))
            #expect(await harness.ask() == "200")
            #expect(harness.events.all.contains { if case .refreshFailed = $0 { true } else { false } })
            harness.clock.advance(by: .seconds(60))
            #expect(await harness.ask() == "refresh_failed")
        }
    }

    @Test(
        "A rotated refresh token is used next; without one in the answer the old one stays",
        arguments: [true, false]
    )
    func rotation(rotates: Bool) async throws {
        var rules = OAuth2Simulator.Rules()
        rules.rotates = rotates
        rules.returnsRefreshToken = rotates
        try await OAuth2Harness.run(rules) { harness in
            for _ in 0..<3 {
                harness.server.revokeAccessTokens()
                #expect(await harness.ask() == "200")
            }
            #expect(harness.server.counters.refreshed == 3)
            #expect(harness.store.credential?.refreshToken?.reveal() == (rotates ? "rt-4-sandbox" : "rt-1-sandbox"))
        }
    }

    @Test("A credential that an operator stores during a refresh wins")
    func operatorWins() async throws {
        let disk = FullDisk()
        try await OAuth2Harness.run(wrap: { disk.around($0) }) { harness in
            _ = await harness.ask()
            harness.server.revokeAccessTokens()
            let theirs = Recorder<OAuthCredential>()
            disk.beforeSave.withLock {
                $0 = {
                    harness.store.replace(harness.server.issue(at: harness.clock.now))
                    if let credential = harness.store.credential { theirs.add(credential) }
                }
            }
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.refreshed == 1 && theirs.all.count == 1)
            #expect(harness.store.credential == theirs.all.first, "the refresh's own result was discarded")
            #expect(await harness.strategy.credential == theirs.all.first)
        }
    }

    @Test("A token stored by another process is used without asking the token endpoint")
    func adoption() async throws {
        try await OAuth2Harness.run { harness in
            _ = await harness.ask()
            harness.server.revokeAccessTokens()
            harness.store.replace(harness.server.issue(at: harness.clock.now))
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 0)
        }
    }

    @Test("After a refusal a new log-in in the store is found without a restart")
    func revival() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.revokeRefreshTokens()
            #expect(await harness.ask() == "reauthorization_required")
            harness.store.replace(harness.server.issue(at: harness.clock.now))
            harness.clock.advance(by: .seconds(2))
            #expect(await harness.ask() == "200")
        }
    }

    /// How a credential of the configuration may be used up: replaced by another, refused after it was kept, refused at
    /// once.
    enum End: CaseIterable { case replaced, keptAndRefused, refused }

    @Test("A used-up credential of the configuration is never sent again, and another one is", arguments: End.allCases)
    func usedUp(_ end: End) async throws {
        var rules = OAuth2Simulator.Rules()
        rules.rotates = end == .replaced
        rules.returnsRefreshToken = rules.rotates
        try await OAuth2Harness.run(rules, startsEmpty: true) { harness in
            let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-oauth-\(UUID())").path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let seed = harness.server.issue(at: harness.clock.now)
            let stores: [any CredentialStore] = [
                StateCredentialStore(MemoryState(), name: "crm"), FileCredentialStore(path: "\(folder)/crm.json"),
            ]
            for (number, store) in stores.enumerated() {
                let seed = number == 0 ? seed : harness.server.issue(at: harness.clock.now)
                var process = try harness.secondProcess(ChainedCredentialStore(store, seed: seed))
                if end != .refused {
                    _ = try await process.authorization()
                    harness.server.revokeAccessTokens()
                    #expect(await harness.status(process) == "200")
                    #expect(try await store.load()?.credential.refreshToken != nil, "a refreshed credential is stored")
                }
                harness.server.revokeAccessTokens()
                harness.server.revokeRefreshTokens()
                #expect(await harness.status(process) == "reauthorization_required")
                let before = harness.server.counters.tokenRequests
                for _ in 0..<3 {
                    harness.clock.advance(by: .seconds(2))
                    #expect(await harness.status(process) == "reauthorization_required")
                }
                await process.shutdown()
                process = try harness.secondProcess(ChainedCredentialStore(store, seed: seed))
                #expect(await harness.status(process) == "missing_credential", "a restart brings nothing back")
                await process.shutdown()
                #expect(harness.server.counters.tokenRequests == before, "the token endpoint is not asked again")
                let new = harness.server.issue(at: harness.clock.now)
                process = try harness.secondProcess(ChainedCredentialStore(store, seed: new))
                #expect(await harness.status(process) == "200", "a new log-in in the configuration")
                await process.shutdown()
            }
        }
    }

    static let malformed: [[UInt8]] = [
        Array("<html>maintenance</html>".utf8), Array(#"{"access_token":"x"#.utf8), Array("[]".utf8), [],
        Array(#"{"access_token":7}"#.utf8), Array(#"{"access_token":"a","expires_in":"soon"}"#.utf8),
        Array(#"{"access_token":"a\r\nx: y","expires_in":60}"#.utf8),
    ]

    @Test("An answer that is no credential changes nothing", arguments: malformed)
    func malformedAnswer(body: [UInt8]) async throws {
        try await OAuth2Harness.run { harness in
            let before = harness.store.credential
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.answer(FaultAnswer(200, body: body)))])
            #expect(await harness.ask() == "malformed_response")
            #expect(harness.store.credential == before)
            harness.server.removeFaults()
            harness.clock.advance(by: .seconds(2))
            #expect(await harness.ask() == "200")
        }
    }

    @Test("Calls outside the base carry no token, and their 401 is handed over")
    func foreign() async throws {
        try await OAuth2Harness.run { harness in
            for path in ["/v2/push", "/v10/push", "/v1/../admin", "/"] {
                #expect(await harness.ask(path) == "404", "\(path)")
            }
            #expect(harness.server.counters.authorized == 0)
            harness.server.add([FaultRule(match: FaultMatch(pathPrefix: "/v2"), .answer(FaultAnswer(401)))])
            #expect(await harness.ask("/v2/push") == "401")
            #expect(harness.server.counters.tokenRequests == 0)
        }
    }

    static let passed = [200, 204, 300, 400, 402, 403, 404, 422, 500, 503, 599]

    @Test("Every status but 401 is the caller's", arguments: passed)
    func passesOthers(status: Int) async throws {
        try await OAuth2Harness.run { harness in
            #expect(await harness.ask(headers: [HTTPHeader("x-status", "\(status)")]) == "\(status)")
            #expect(harness.server.counters.apiRequests == 1)
            #expect(harness.server.counters.tokenRequests == 0)
        }
    }

    /// A delegate that overrides what the original's can: where tokens are refreshed, and which requests carry them,
    /// and how.
    private struct OwnWays: OAuth2Hooks {
        let server: HTTPBaseURL
        let asked: Recorder<String>

        func refreshRequest(
            for credential: OAuthCredential,
            settings: OAuth2Settings
        ) throws(OAuth2Error) -> OAuth2TokenRequest {
            var request = OAuth2TokenRequest(endpoint: server.endpoint, path: OAuth2Simulator.tokenPath)
            asked.add(settings.clientID)
            request.headers = [HTTPHeader("content-type", "application/json")]
            let body: JSONValue = [
                "grant_type": "refresh_token", "client_id": .string(OAuth2Simulator.clientID),
                "refresh_token": .string(credential.refreshToken?.reveal() ?? ""),
                "access_token": .string(credential.accessToken.reveal()),
            ]
            request.body = body.bytes
            return request
        }

        func bases(for settings: OAuth2Settings) -> [HTTPBaseURL] { [settings.base, server] }

        func authorization(for credential: OAuthCredential) -> [AuthCredential.Header] {
            [
                AuthCredential.Header("authorization", Secret("Bearer \(credential.accessToken.reveal())")),
                AuthCredential.Header("x-client", Secret("ours")),
            ]
        }
    }

    @Test("An overridden RefreshTokenEndpoint and AdaptURLRequest decide where tokens come from and where they go")
    func ownWays() async throws {
        try await OAuth2Harness.run { harness in
            let server = try #require(HTTPBaseURL(url: harness.server.baseURL))
            let nowhere = HTTPBaseURL(HTTPEndpoint(host: "127.0.0.1", port: 1), path: "/api/")
            var settings = OAuth2Settings(base: nowhere, clientID: "another")
            settings.trustPEM = harness.server.certificatePEM
            let hooks = OwnWays(server: server, asked: Recorder())
            let strategy = try OAuth2RefreshToken(
                settings,
                store: MemoryCredentialStore(harness.server.issue(at: harness.clock.now)),
                hooks: hooks,
                http: harness.transport,
                time: harness.clock,
                now: { [clock = harness.clock] in clock.instant }
            )
            #expect(
                strategy.covers(server.endpoint, path: "/v1/push") && !strategy.covers(server.endpoint, path: "/v2/x")
            )
            #expect(strategy.covers(nowhere.endpoint, path: "/api/x"))
            let fields = try await strategy.credential(for: server.endpoint).headers
            #expect(fields.map(\.name) == ["authorization", "x-client"])
            let elsewhere = HTTPEndpoint(host: "elsewhere.test")
            #expect(try await strategy.credential(for: elsewhere).headers.isEmpty)
            for round in 1...2 {
                harness.server.revokeAccessTokens()
                #expect(await harness.status(strategy) == "200")
                #expect(hooks.asked.all.count == round && harness.server.counters.tokenRequests == round)
            }
            await strategy.shutdown()
        }
    }

    static let fields: [(String, String?)] = [
        (#"Bearer error="invalid_token""#, "invalid_token"), ("Bearer error=invalid_token", "invalid_token"),
        ("Bearer realm=api, ERROR = invalid_token, error_description=x", "invalid_token"),
        (#"Basic realm="error=\"invalid_token\"", Bearer error=insufficient_scope"#, "insufficient_scope"),
        (#"Bearer realm="a error=invalid_token""#, nil), ("Bearer", nil), ("Basic YTpi==", nil), ("", nil),
        ("Bearer error_uri=x", nil), (#"Bearer error="invalid_token"#, "invalid_token"), ("error", nil), ("=,\"=", nil),
    ]

    @Test(
        "The error of WWW-Authenticate is read with and without quotation marks, and never out of a quoted text",
        arguments: fields
    )
    func bearerError(field: String, error: String?) async throws {
        let answer = HTTPAnswer(status: 403, headers: [HTTPHeader("www-authenticate", field)])
        let strategy = try OAuth2RefreshToken(
            OAuth2Settings(base: HTTPBaseURL(HTTPEndpoint(host: "api.test")), clientID: "c"),
            store: MemoryCredentialStore(),
            http: ScriptedTransport()
        )
        #expect(strategy.isRefusal(answer) == (error == "invalid_token"))
        await strategy.shutdown()
    }

    @Test("A known scope stays in force when the answer has none, and a told one replaces it")
    func scope() throws {
        let old = OAuthCredential(
            accessToken: Secret("a"),
            refreshToken: Secret("r"),
            expiresIn: 60,
            createdAt: Date(timeIntervalSince1970: 0),
            scope: "read send"
        )
        let now = Date(timeIntervalSince1970: 60)
        let plain = try OAuthCredential(json: ["access_token": "b"], createdAt: now, replacing: old)
        #expect(plain.scope == "read send" && plain.refreshToken == old.refreshToken)
        let told = try OAuthCredential(json: ["access_token": "b", "scope": "read"], createdAt: now, replacing: old)
        #expect(told.scope == "read")
        #expect(try OAuthCredential(json: ["access_token": "b"], createdAt: now).scope == nil)
    }

    @Test("A hook may send a request through the same strategy")
    func reentrantHook() async throws {
        let hooks = RecordingHooks()
        let result = Recorder<String>()
        try await OAuth2Harness.run(hooks: hooks) { harness in
            hooks.afterRefresh.withLock { $0 = { result.add(await harness.ask("/v1/from-the-hook")) } }
            harness.server.revokeAccessTokens()
            #expect(await harness.ask() == "200")
            await harness.strategy.shutdown()
            #expect(result.all == ["200"])
        }
    }

    @Test("A token endpoint that never answers releases everybody at its deadline")
    func hangs() async throws {
        try await OAuth2Harness.run(adjust: { $0.refreshTimeout = .milliseconds(300) }) { harness in
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.silence)])
            #expect(await harness.askAtOnce(10) == ["refresh_failed": 10])
            #expect(harness.store.credential != nil)
        }
    }

    static let operatorErrors: [(Int, String?)] = [
        (400, "invalid_client"), (401, "invalid_client"), (400, "unauthorized_client"), (400, "unsupported_grant_type"),
        (400, "invalid_scope"), (400, "invalid_request"), (400, nil), (403, nil), (404, nil), (405, nil), (302, nil),
    ]

    @Test("Mistakes that an operator must mend keep the credential", arguments: operatorErrors)
    func misconfigured(status: Int, error: String?) async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            harness.server.add([tokenFault(.answer(FaultAnswer(status, error)))])
            #expect(await harness.ask() == "misconfigured")
            #expect(harness.store.credential != nil)
            #expect(await harness.ask() == "misconfigured")
            #expect(harness.server.counters.tokenRequests == 1)
        }
    }

    @Test("A server of RFC 6749 is served as it wants", arguments: OAuth2Settings.ClientAuthentication.allCases)
    func standardServer(_ authentication: OAuth2Settings.ClientAuthentication) async throws {
        var rules = OAuth2Simulator.Rules()
        rules.encoding = .form
        rules.clientAuthentication = authentication
        rules.requiresAccessToken = false
        try await OAuth2Harness.run(rules, adjust: { $0.sendsAccessToken = false }) { harness in
            harness.server.revokeAccessTokens()
            #expect(await harness.ask() == "200")
        }
    }

    @Test("Without a credential nothing is sent")
    func empty() async throws {
        try await OAuth2Harness.run(startsEmpty: true) { harness in
            #expect(await harness.ask() == "missing_credential")
            #expect(harness.server.counters.apiRequests == 0)
            try await harness.strategy.replaceCredential(harness.server.issue(at: harness.clock.now))
            #expect(await harness.ask() == "200")
        }
    }

    @Test("Through a pool that authorizes, a thousand refused calls cause one refresh as well")
    func authorizedPool() async throws {
        try await OAuth2Harness.run { harness in
            harness.server.revokeAccessTokens()
            let pool = AuthorizedPool(harness.pool, endpoint: harness.endpoint, strategy: harness.strategy)
            let template = HTTPCallTemplate(method: "POST", headers: [HTTPHeader("authorization", "Key other")])
            let calls = (0..<1000).map { HTTPCall(template, path: $0 % 10 == 0 ? "/v2/\($0)" : "/v1/\($0)") }
            let replies = Recorder<(Int, Int)>()
            await pool.send(calls) { group in
                for reply in group { replies.add((reply.index, (try? reply.result.get().status) ?? 0)) }
            }
            #expect(replies.all.count == 1000)
            #expect(Set(replies.all.map(\.0)).count == 1000)
            for (index, status) in replies.all { #expect(status == (index % 10 == 0 ? 404 : 200)) }
            #expect(harness.server.counters.tokenRequests == 1)
        }
    }

    @Test("The strategy keeps what every strategy promises", arguments: AuthStrategyConformance.checks)
    func conformance(_ check: AuthStrategyConformance.Check) async throws {
        try await OAuth2Harness.run { harness in
            let subject = AuthStrategyConformance.Subject(
                strategy: harness.strategy,
                destination: harness.endpoint,
                refreshes: { harness.server.counters.refreshed },
                curable: (401, nil),
                hopeless: (403, "insufficient_scope")
            )
            try await check.run(subject)
        }
    }

    /// A fault at the token endpoint.
    private func tokenFault(_ step: FaultStep) -> FaultRule {
        FaultRule(match: FaultMatch(pathPrefix: OAuth2Simulator.tokenPath), step)
    }
}
