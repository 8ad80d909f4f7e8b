import Crypto
import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPNs

@Suite("Provider tokens", .timeLimit(.minutes(1)))
struct ProviderTokenTests {
    static func source(_ time: ManualTime, state: MemoryState? = nil) throws -> APNsTokenSource {
        APNsTokenSource(
            key: try APNsAuthKey(pem: Secret(sampleKey.pem)),
            keyID: sampleKey.keyID,
            teamID: sampleKey.teamID,
            time: time,
            store: state,
            logger: quiet
        )
    }

    static func connection(_ id: UInt64) -> HTTPConnectionInfo { HTTPConnectionInfo(id: id, openedAt: .now) }

    @Test("A token holds what Apple asks for and nothing more")
    func form() throws {
        let token = try Self.source(ManualTime()).newest()
        let parts = token.jwt.reveal().split(separator: ".", omittingEmptySubsequences: false)
        #expect(parts.count == 3)
        let texts = try parts.prefix(2).map { String(decoding: try #require(Base64URL.decode($0)), as: UTF8.self) }
        #expect(texts == [#"{"alg":"ES256","kid":"K3YID12345"}"#, #"{"iss":"TEAM1D2345","iat":1767225600}"#])
        let signature = try #require(Base64URL.decode(parts[2]))
        #expect(signature.count == 64, "raw r and s, not DER")
        let isUnpadded = token.jwt.reveal().utf8.allSatisfy { !"+/=".utf8.contains($0) }
        #expect(isUnpadded)
        let key = try P256.Signing.PublicKey(pemRepresentation: sampleKey.publicKeyPEM)
        let content = Data(parts.prefix(2).joined(separator: ".").utf8)
        #expect(key.isValidSignature(try .init(rawRepresentation: signature), for: content))
        #expect(token.header.value == "bearer \(token.jwt.reveal())")
        #expect(!"\(token)".contains(parts[2]), "printing a token must not show it")
    }

    @Test(
        "Over a day of traffic: never two mints in 20 minutes, never a token past 55, one connection's changes 20 apart"
    )
    func rules() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        var issued: [Int64: Int64] = [:]  // generation's iat by header hash
        var last: [UInt64: (value: String, at: Int64)] = [:]
        var texts: [String: Int64] = [:]
        for second in stride(from: Int64(0), to: 86_400, by: 10) {
            let newest = try source.newest()
            issued[Int64(newest.generation)] = newest.issuedAt
            texts[newest.header.value] = newest.issuedAt
            // Old connections that live all day, and a new one every seven minutes.
            for id in [1, 2, 3, 4, UInt64(1000 + second / 420)] {
                let value = try source.header(for: Self.connection(id)).value
                if let issuedAt = texts[value] {
                    #expect(source.now - issuedAt <= 55 * 60, "a token was sent when it was too old")
                }
                if let before = last[id], before.value != value {
                    #expect(source.now - before.at >= 20 * 60, "connection \(id) changed its token too soon")
                }
                if last[id]?.value != value { last[id] = (value, source.now) }
            }
            time.advance(by: .seconds(10))
        }
        let times = issued.values.sorted()
        for (earlier, later) in zip(times, times.dropFirst()) { #expect(later - earlier >= 20 * 60) }
        #expect((40...48).contains(times.count), "a mint each half hour: \(times.count)")
    }

    @Test("A connection keeps its token while newer ones come up")
    func pins() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        let first = try source.header(for: Self.connection(5))
        time.advance(by: .seconds(31 * 60))
        let second = try source.header(for: Self.connection(6))
        #expect(first != second, "a new connection gets a new token after 30 minutes")
        #expect(try source.header(for: Self.connection(5)) == first)
        time.advance(by: .seconds(20 * 60))
        #expect(
            try source.header(for: Self.connection(5)) == second,
            "it moves to the newest, which is old enough to stay"
        )
    }

    @Test("A thousand refusals at once cause one mint")
    func stampede() async throws {
        let time = ManualTime()
        let source = try Self.source(time)
        let connections = (1...1000).map { Self.connection($0) }
        for connection in connections { _ = try source.header(for: connection) }
        time.advance(by: .seconds(25 * 60))
        await withTaskGroup(of: Void.self) { tasks in
            for connection in connections { tasks.addTask { source.expired(on: connection) } }
        }
        #expect(source.generation == 2)
        #expect(source.consumeReplacement(), "connections that carry the refused token are replaced")
        #expect(!source.consumeReplacement(), "once")
    }

    @Test(
        "A young token that is refused once is tried once more; refused again it is held, with a word about the clock"
    )
    func skew() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        let first = Self.connection(1)
        let header = try source.header(for: first)
        time.advance(by: .seconds(60))
        source.expired(on: first)
        let second = Self.connection(2)
        #expect(try source.header(for: second) == header, "nothing is minted within 20 minutes")
        source.expired(on: second)
        #expect(source.alert?.contains("clock") == true)
        let failure = #expect(throws: HTTPFailure.self) { try source.header(for: Self.connection(3)) }
        #expect(failure?.cause == .credentials)
        #expect(failure?.stage == .notProcessed)
        #expect(source.generation == 1)
        time.advance(by: .seconds(20 * 60))
        #expect(try source.header(for: Self.connection(4)) != header, "then a new one may be made")
        #expect(source.generation == 2)
        #expect(source.alert == nil)
    }

    @Test("Two odd answers keep a young token from connections for a second, each refusal after that for twice as long")
    func holds() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        let header = try source.header(for: Self.connection(1))
        source.expired(on: Self.connection(1))
        var id: UInt64 = 2
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            let connection = Self.connection(id)
            #expect(try source.header(for: connection) == header, "one tries it again")
            source.expired(on: connection)
            #expect(throws: HTTPFailure.self) { try source.header(for: Self.connection(100)) }
            time.advance(by: .seconds(wait - 1))
            #expect(throws: HTTPFailure.self) { try source.header(for: Self.connection(100)) }
            time.advance(by: .seconds(1))
            id += 1
        }
        #expect(try source.header(for: Self.connection(id)) == header)
        source.confirm()
        #expect(source.alert == nil)
        source.expired(on: Self.connection(id))
        #expect(try source.header(for: Self.connection(id + 1)) == header, "one odd answer is a suspicion")
        source.expired(on: Self.connection(id + 1))
        time.advance(by: .seconds(1))
        #expect(try source.header(for: Self.connection(id + 2)) == header, "the waits began anew")
        #expect(source.generation == 1)
    }

    @Test("Many refusals on connections of the same time are one suspicion, no proof")
    func oneSuspicion() throws {
        let source = try Self.source(ManualTime())
        let connections = (1...50).map { Self.connection($0) }
        for connection in connections { _ = try source.header(for: connection) }
        for connection in connections { source.expired(on: connection) }
        #expect(throws: Never.self) { try source.header(for: Self.connection(51)) }
        source.confirm()
        #expect(source.alert == nil)
    }

    @Test("Told that tokens change too often, it mints none for 20 minutes and says so")
    func tooMany() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        let header = try source.header(for: Self.connection(1))
        time.advance(by: .seconds(29 * 60))
        source.tooManyUpdates()
        #expect(source.alert?.contains("too often") == true)
        time.advance(by: .seconds(19 * 60))
        #expect(try source.header(for: Self.connection(2)) == header, "48 minutes old, and still the one")
        time.advance(by: .seconds(2 * 60))
        #expect(try source.header(for: Self.connection(3)) != header)
        #expect(source.alert == nil)
    }

    @Test("Told that tokens change too often, it replaces a token that may not be sent any more all the same")
    func mintingWaitsSendingDoesNot() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        let first = try source.newest().header
        time.advance(by: .seconds(50 * 60))
        source.tooManyUpdates()
        time.advance(by: .seconds(4 * 60))
        #expect(try source.header(for: Self.connection(1)) == first)
        time.advance(by: .seconds(2 * 60))
        let second = try source.header(for: Self.connection(1))
        #expect(second != first && source.generation == 2)
        time.advance(by: .seconds(10 * 60))
        #expect(try source.header(for: Self.connection(2)) == second)
    }

    @Test("A restart goes on with the token of before")
    func restart() async throws {
        let time = ManualTime()
        let state = MemoryState()
        let before = try Self.source(time, state: state)
        await before.prepare()
        let header = try before.newest().header
        time.advance(by: .seconds(15 * 60))
        let after = try Self.source(time, state: state)
        await after.prepare()
        #expect(try after.newest().header == header)
        time.advance(by: .seconds(16 * 60))
        await after.prepare()
        #expect(try after.newest().header != header, "31 minutes old: a new one")
        await before.prepare()
        #expect(try before.newest().header == after.newest().header, "another node takes over what was stored")
    }

    static let strangers: [(String, Duration)] = [
        ("garbage", .zero), (#"{"jwt":"a.b.c","iat":1767225600}"#, .zero), ("of an hour ago", .seconds(3600)),
    ]

    @Test("A stored token that is damaged, old or of another key is not used", arguments: strangers)
    func stranger(stored: String, age: Duration) async throws {
        let time = ManualTime()
        let state = MemoryState()
        let before = try Self.source(time, state: state)
        await before.prepare()
        let header = try before.newest().header
        if age == .zero {
            for name in state.values.keys { state.values[name] = Array(stored.utf8) }
        }
        time.advance(by: age)
        let after = try Self.source(time, state: state)
        await after.prepare()
        #expect(try after.newest().header != header)
    }

    @Test("A clock that was set back far makes the old token useless; a little makes no difference")
    func clockBack() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        let header = try source.newest().header
        time.advance(by: .seconds(-10 * 60))
        #expect(try source.newest().header == header)
        time.advance(by: .seconds(-15 * 60))
        #expect(try source.newest().header != header)
    }

    @Test("The server's clock is compared with ours")
    func clock() throws {
        let time = ManualTime()
        let source = try Self.source(time)
        source.compareClock(with: time.now.addingTimeInterval(30))
        #expect(source.alert == nil)
        source.compareClock(with: time.now.addingTimeInterval(7200))
        #expect(source.alert?.contains("7200 s behind") == true)
    }

    // MARK: The same source as an AuthStrategy

    @Test("It keeps the promises of an AuthStrategy", arguments: AuthStrategyConformance.checks)
    func conformance(check: ConformanceCheck<AuthStrategyConformance.Subject>) async throws {
        let time = ManualTime()
        let source = try Self.source(time, state: MemoryState())
        try await check.run(
            .init(
                strategy: source,
                destination: HTTPEndpoint(host: "api.push.apple.com"),
                refreshes: { Int(source.generation) },
                curable: (403, "ExpiredProviderToken"),
                hopeless: (403, "InvalidProviderToken"),
                age: { time.advance(by: .seconds(21 * 60)) }
            )
        )
    }

    @Test("As a strategy it mints nothing within 20 minutes, and asks for a pause when Apple does")
    func strategy() async throws {
        let source = try Self.source(ManualTime())
        let credential = try await source.credential(for: HTTPEndpoint(host: "api.push.apple.com"))
        let expired = await source.refused(credential, status: 403, reason: "ExpiredProviderToken")
        #expect(expired == .giveUp(APNsRejections.clockHint))
        let tooMany = await source.refused(credential, status: 429, reason: "TooManyProviderTokenUpdates")
        #expect(tooMany == .wait(.seconds(1200)))
        #expect(source.generation == 1)
    }
}
