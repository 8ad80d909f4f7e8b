internal import ChaparCore
public import ChaparModules

extension ModuleFactory {
    /// The requests of gorush, answered by the gateway.
    ///
    /// ## Configuration keys, in the section `gorush`
    /// - `prefix`: what stands before each path, such as `/gorush`; without it paths that the gateway has itself
    ///   (`/healthz`, `/metrics`, `/`) stay the gateway's. `paths`: other paths than gorush's for `push`, `stat_app`,
    ///   `config`, `sys_stat`, `metric` and `health`.
    /// - `ios`: the backends of platform 1: `production`, `development`, `default` (the environment of a notification
    ///   that names none) and `apps`, a list of other apps' `topic`, `production` and `development`.
    /// - `android`, `huawei`: the backends of platforms 2 and 3; `huawei_apps`: a list of other apps' `app_id` and
    ///   `backend`.
    /// - `max_notification`: the most notifications of a request; `max_body`: its largest body, in bytes.
    /// - `sync`: whether an answer waits for the platforms', at most `sync_timeout` seconds.
    /// - `default_ttl`: how long a message is kept for a device that is not reached, in seconds.
    /// - `hide_tokens`: whether `logs` show tokens masked, as gorush does.
    public static let gorush = ModuleFactory("gorush") { section, _ in
        GorushOptions(section).map { GorushModule($0) }
    }
}
