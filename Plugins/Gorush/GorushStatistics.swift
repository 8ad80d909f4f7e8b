import Foundation
import ChaparCore

/// gorush's figures, made of the gateway's metrics: they count everything that the gateway sends, through any
/// endpoint.
struct GorushStatistics {
    private let lines: [Substring]

    /// Takes the text of the gateway's metrics.
    init(_ text: String) { lines = text.split(separator: "\n") }

    /// Returns the sum of a metric's series whose lines have all of `labels` and none of `others`.
    private func sum(_ name: String, with labels: [String] = [], without others: [String] = []) -> Int64 {
        var sum = 0.0
        for line in lines where line.hasPrefix(name) {
            let rest = line.dropFirst(name.count)
            guard rest.first == "{" || rest.first == " " else { continue }
            guard labels.allSatisfy({ rest.contains($0) }), !others.contains(where: { rest.contains($0) }) else {
                continue
            }
            sum += rest.lastIndex(of: " ").flatMap { Double(rest[rest.index(after: $0)...]) } ?? 0
        }
        return Int64(exactly: sum.rounded()) ?? 0
    }

    /// Returns the number of messages that a kind of platform accepted, and the number of all others.
    private func pushes(_ kind: String) -> (accepted: Int64, failed: Int64) {
        let (own, good) = ("kind=\"\(kind)\"", "outcome=\"accepted\"")
        let name = "chapar_deliveries_total"
        return (sum(name, with: [own, good]), sum(name, with: [own], without: [good]))
    }

    private static let goodEnds = ["accepted_by_platform", "delivered", "opened"].map { "state=\"\($0)\"" }
    private var ended: (good: Int64, bad: Int64) {
        let name = "chapar_ledger_ended_total"
        let good = Self.goodEnds.reduce(Int64(0)) { $0.adding(clamping: sum(name, with: [$1])) }
        return (good, sum(name, without: Self.goodEnds))
    }

    private var submitted: Int64 { sum("chapar_notifications_accepted_total") }
    private var targets: Int64 { sum("chapar_ledger_accepted_total") }
    private var busy: Int64 { sum("chapar_inflight") }

    /// Returns the answer of `/api/stat/app`.
    func app(version: String) -> JSONObject {
        func platform(_ kind: String) -> JSONValue {
            let (accepted, failed) = pushes(kind)
            return ["push_success": .integer(accepted), "push_error": .integer(failed)]
        }
        let ended = ended
        return [
            "version": .string(version), "busy_workers": .integer(busy), "success_tasks": .integer(ended.good),
            "failure_tasks": .integer(ended.bad), "submitted_tasks": .integer(submitted),
            "total_count": .integer(targets), "ios": platform("apns"), "android": platform("fcm"),
            "huawei": platform("hms"),
        ]
    }

    /// Returns the answer of `/sys/stats`, without the sizes of answers, which the gateway does not count.
    func system(at now: Date) -> JSONObject {
        let name = "chapar_http_requests_total"
        var codes = JSONObject()
        for line in lines where line.hasPrefix(name) {
            guard let mark = line.range(of: "status=\"") else { continue }
            let code = String(line[mark.upperBound...].prefix { $0 != "\"" })
            codes[code] = .integer(sum(name, with: ["status=\"\(code)\""]))
        }
        let count = sum(name)
        let seconds = durations
        let uptime = max(0, now.timeIntervalSince1970 - started)
        return [
            "pid": .integer(Int64(ProcessInfo.processInfo.processIdentifier)),
            "hostname": .string(Self.host), "uptime": .string("\(Int64(clamping: uptime))s"),
            "uptime_sec": .double(uptime), "time": .string(RFC3339.string(now)),
            "unixtime": .integer(Int64(clamping: now.timeIntervalSince1970)), "status_code_count": .object(codes),
            "total_status_code_count": .object(codes), "count": .integer(count), "total_count": .integer(count),
            "total_response_time": .string("\(seconds)s"), "total_response_time_sec": .double(seconds),
            "average_response_time": .string("\(count > 0 ? seconds / Double(count) : 0)s"),
            "average_response_time_sec": .double(count > 0 ? seconds / Double(count) : 0),
        ]
    }

    /// The machine's name, without asking the network for it.
    private static var host: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return "" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The time that all answers took together, in seconds.
    private var durations: Double { total("chapar_http_request_duration_seconds_sum") }
    /// The start of the process, in seconds since 1970.
    private var started: Double { total("process_start_time_seconds") }

    private func total(_ name: String) -> Double {
        lines.reduce(0) { sum, line in
            guard line.hasPrefix(name), let place = line.lastIndex(of: " ") else { return sum }
            return sum + (Double(line[line.index(after: place)...]) ?? 0)
        }
    }

    /// gorush's eleven metrics in the text form of Prometheus.
    var metrics: String {
        let (apple, google, huawei, ended) = (pushes("apns"), pushes("fcm"), pushes("hms"), ended)
        let counters: [(String, String, Int64)] = [
            ("total_push_count", "Number of push count", targets),
            ("ios_success", "Number of iOS success count", apple.accepted),
            ("ios_error", "Number of iOS fail count", apple.failed),
            ("android_success", "Number of android success count", google.accepted),
            ("android_fail", "Number of android fail count", google.failed),
            ("huawei_success", "Number of huawei success count", huawei.accepted),
            ("huawei_fail", "Number of huawei fail count", huawei.failed),
            ("success_tasks", "Total number of success tasks", ended.good),
            ("failure_tasks", "Total number of failure tasks", ended.bad),
            ("submitted_tasks", "Total number of submitted tasks", submitted),
        ]
        let text = counters.map { name, help, value in
            "# HELP gorush_\(name) \(help)\n# TYPE gorush_\(name) counter\ngorush_\(name) \(value)\n"
        }
        let gauge = "# HELP gorush_busy_workers Length of busy workers\n# TYPE gorush_busy_workers gauge\n"
        return text.joined() + gauge + "gorush_busy_workers \(busy)\n"
    }
}

extension GorushOptions {
    /// The settings in the form of gorush's `/api/config`, without secrets.
    var yaml: String {
        func list(_ pairs: [(String, String)]) -> String { pairs.map { "  \($0): \($1)\n" }.joined() }
        func flag(_ isOn: Bool) -> String { isOn ? "true" : "false" }
        let core = list([
            ("max_notification", String(maximumNotifications)), ("sync", flag(isSync)),
            ("sync_timeout", String(syncTimeout.components.seconds)), ("default_ttl", String(defaultLife)),
        ])
        let api = list(
            [
                (Path.push, "push_uri"), (.appStatistics, "stat_app_uri"), (.configuration, "config_uri"),
                (.systemStatistics, "sys_stat_uri"), (.metrics, "metric_uri"), (.health, "health_uri"),
            ]
            .map { ($1, path($0)) }
        )
        return "core:\n\(core)api:\n\(api)"
            + "ios:\n"
            + list([
                ("enabled", flag(apple != nil || !topics.isEmpty)), ("production", flag(environment == .production)),
            ])
            + "android:\n" + list([("enabled", flag(google != nil))])
            + "huawei:\n" + list([("enabled", flag(huawei != nil || !huaweiApps.isEmpty))])
    }
}
