//! Who may be dialled. One function decides for every spelling of an address, and it is asked about each
//! resolved address right before the connection is made, so that neither a disguise nor a name that changes
//! its meaning gets past it.
//!
//! IPv4 is public unless listed (the special-purpose registry of RFC 6890). IPv6 is public only inside
//! 2000::/3, less what is listed, so that a range nobody thought of is refused. An IPv6 address that carries an
//! IPv4 address is judged by that one where a translator would deliver there, and refused where a tunnel would.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

/// Where an address came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// It arrived as data, such as a webhook target: private addresses are refused unless allowed.
    Data,
    /// The operator wrote the host into the configuration: private addresses are taken as meant.
    Operator,
}

/// Why an address may not be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// The metadata service of a cloud provider, which hands out credentials. Never allowed.
    #[error("the address is a cloud metadata service")]
    Metadata,
    /// Loopback, private, link-local or otherwise not of the public internet.
    #[error("the address is not public and not allowed in the configuration")]
    NotPublic,
    /// Plain http to a public address: anyone on the way could read it.
    #[error("plain http to a public address is not allowed in the configuration; use https")]
    PlainHttp,
}

/// Decides who may be dialled.
#[derive(Clone, Debug)]
pub struct Guard {
    allowed: Vec<IpNet>,
    plain_http: bool,
}

impl Guard {
    /// A guard that lets data lead to public addresses alone, by https alone.
    pub fn public_only() -> Self {
        Guard { allowed: Vec::new(), plain_http: false }
    }

    /// Lets data lead to addresses in `nets` too, by http or https. Metadata services stay refused.
    #[must_use]
    pub fn allowing(mut self, nets: Vec<IpNet>) -> Self {
        self.allowed.extend(nets);
        self
    }

    /// Whether plain http to public addresses is allowed.
    #[must_use]
    pub fn plain_http(mut self, allowed: bool) -> Self {
        self.plain_http = allowed;
        self
    }

    /// Whether a connection to `ip` may be made.
    pub fn check(&self, ip: IpAddr, trust: Trust) -> Result<(), Blocked> {
        if is_metadata(ip) {
            return Err(Blocked::Metadata);
        }
        if trust == Trust::Operator || self.allows(ip) || is_public(ip) {
            return Ok(());
        }
        Err(Blocked::NotPublic)
    }

    /// Whether a connection to `ip` without TLS may be made.
    pub fn check_plain(&self, ip: IpAddr, trust: Trust) -> Result<(), Blocked> {
        self.check(ip, trust)?;
        let private = self.allows(ip) || !is_public(ip);
        if self.plain_http || private { Ok(()) } else { Err(Blocked::PlainHttp) }
    }

    /// Whether `name` may be resolved at all: the names of metadata services may not.
    pub fn check_name(&self, name: &str) -> Result<(), Blocked> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let metadata = METADATA_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
        if metadata { Err(Blocked::Metadata) } else { Ok(()) }
    }

    /// What can be said about `url` before anything is resolved, to refuse it when it comes in. Passing here
    /// is no promise: the addresses behind a name are checked when they are dialled.
    pub fn check_url(&self, url: &Url, trust: Trust) -> Result<(), Blocked> {
        let check = |ip| match url.scheme() {
            "http" => self.check_plain(ip, trust),
            _ => self.check(ip, trust),
        };
        match url.host() {
            Some(Host::Ipv4(ip)) => check(ip.into()),
            Some(Host::Ipv6(ip)) => check(ip.into()),
            Some(Host::Domain(name)) => self.check_name(name),
            None => Ok(()),
        }
    }

    fn allows(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.allowed.iter().any(|net| net.contains(&ip))
    }
}

/// Addresses of metadata services (AWS instances and containers, Azure, Google, Alibaba, Oracle). Some lie in
/// ranges that are public otherwise.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

const METADATA_NAMES: [&str; 5] =
    ["metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];

const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const fn v6(a: u16, b: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix)
}

const NOT_PUBLIC_V4: [Ipv4Net; 15] = [
    v4(0, 0, 0, 8),
    v4(10, 0, 0, 8),
    v4(100, 64, 0, 10),
    v4(127, 0, 0, 8),
    v4(169, 254, 0, 16),
    v4(172, 16, 0, 12),
    v4(192, 0, 0, 24),
    v4(192, 0, 2, 24),
    v4(192, 88, 99, 24),
    v4(192, 168, 0, 16),
    v4(198, 18, 0, 15),
    v4(198, 51, 100, 24),
    v4(203, 0, 113, 24),
    v4(224, 0, 0, 4),
    v4(240, 0, 0, 4),
];

const GLOBAL_UNICAST_V6: Ipv6Net = v6(0x2000, 0, 3);

/// Inside 2000::/3: protocol assignments (Teredo, benchmarking, ORCHID), documentation twice, 6to4.
const NOT_PUBLIC_V6: [Ipv6Net; 4] =
    [v6(0x2001, 0, 23), v6(0x2001, 0xdb8, 32), v6(0x2002, 0, 16), v6(0x3fff, 0, 20)];

fn is_metadata(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => METADATA_V4.contains(&ip),
        IpAddr::V6(ip) => {
            METADATA_V6.contains(&ip) || carried_v4(ip).is_some_and(|ip| METADATA_V4.contains(&ip))
        }
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !NOT_PUBLIC_V4.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => match (ip.segments(), carried_v4(ip)) {
            ([0x64, 0xff9b, 0, 0, 0, 0, _, _], Some(inner)) => is_public(inner.into()),
            _ => GLOBAL_UNICAST_V6.contains(&ip) && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&ip)),
        },
    }
}

/// The IPv4 address inside an IPv6 address: mapped, translated, compatible, NAT64, 6to4 or Teredo.
fn carried_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => join(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => join(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => join(high, low),
        [0x64, 0xff9b, 1, _, _, _, high, low] => join(high, low),
        [0x2002, high, low, ..] => join(high, low),
        [0x2001, 0, _, _, _, _, high, low] => join(!high, !low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn data(guard: &Guard, ip: &str) -> Result<(), Blocked> {
        guard.check(ip.parse().unwrap(), Trust::Data)
    }

    fn loopback_allowed() -> Guard {
        Guard::public_only().allowing(vec!["127.0.0.0/8".parse().unwrap()])
    }

    /// WH1: both ends of every range that is not public, and their neighbours outside.
    #[test]
    fn ranges_that_are_not_public() {
        let guard = Guard::public_only();
        let refused = "0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 \
            127.255.255.255 169.254.0.0 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.1 192.0.2.1 \
            192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.5 \
            224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 100::1 2001:db8::1 2001:2::1 2001:20::1 \
            3fff::1 5f00::1 fc00::1 fdff::1 fe80::1 fec0::1 ff02::1 4000::1";
        for ip in refused.split_whitespace() {
            assert_eq!(data(&guard, ip), Err(Blocked::NotPublic), "{ip}");
            assert_eq!(guard.check(ip.parse().unwrap(), Trust::Operator), Ok(()), "{ip}");
        }
        let public = "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 \
            169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 \
            198.17.255.255 198.20.0.0 223.255.255.255 2606:4700:4700::1111 2001:200::1 2a00:1450:4001::1";
        for ip in public.split_whitespace() {
            assert_eq!(data(&guard, ip), Ok(()), "{ip}");
        }
    }

    /// WH2: an IPv4 address inside an IPv6 address is no way around.
    #[test]
    fn c123_addresses_in_disguise() {
        let guard = Guard::public_only();
        let disguises = "::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::127.0.0.1 ::ffff:0:127.0.0.1 \
            64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::127.0.0.1 64:ff9b:1::8.8.8.8 2002:7f00:1:: \
            2002:808:808:: 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:4136:e378:8000:63bf:80ff:fffe";
        for ip in disguises.split_whitespace() {
            assert_eq!(data(&guard, ip), Err(Blocked::NotPublic), "{ip}");
        }
        assert_eq!(data(&guard, "::ffff:8.8.8.8"), Ok(()));
        assert_eq!(data(&guard, "64:ff9b::8.8.8.8"), Ok(()));
    }

    /// C123: spellings of one literal that text checks miss, refused when the URL comes in.
    #[test]
    fn c123_literals_are_refused_when_saved() {
        let hosts = "127.0.0.1 2130706433 0x7f.1 0177.0.0.1 127.1 017700000001 ①②⑦.⓪.⓪.① 127。0。0。1 0.0.0.0 \
            [::] [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] 10.1.2.3 192.168.1.1 [fd00::1] [64:ff9b::7f00:1]";
        for host in hosts.split_whitespace() {
            for scheme in ["http", "https"] {
                let refused =
                    Guard::public_only().check_url(&url(&format!("{scheme}://{host}/")), Trust::Data);
                assert_eq!(refused, Err(Blocked::NotPublic), "{scheme} {host}");
            }
        }
        assert_eq!(Guard::public_only().check_url(&url("https://example.com/"), Trust::Data), Ok(()));
        assert_eq!(loopback_allowed().check_url(&url("http://127.1/"), Trust::Data), Ok(()));
    }

    /// WH3: metadata services stay refused whatever is allowed, in every disguise, under every trust.
    #[test]
    fn metadata_services_are_never_reached() {
        let all = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let guard = Guard::public_only().allowing(all).plain_http(true);
        let services = "169.254.169.254 168.63.129.16 100.100.100.200 fd00:ec2::254 169.254.170.2 192.0.0.192 \
            ::ffff:169.254.169.254 ::169.254.169.254 ::ffff:0:169.254.169.254 64:ff9b::169.254.169.254 \
            64:ff9b:1::169.254.169.254 2002:a9fe:a9fe:: 2001:0:4136:e378:8000:63bf:5601:5601";
        for ip in services.split_whitespace() {
            for trust in [Trust::Data, Trust::Operator] {
                let ip: IpAddr = ip.parse().unwrap();
                assert_eq!(guard.check(ip, trust), Err(Blocked::Metadata), "{ip}");
                assert_eq!(guard.check_plain(ip, trust), Err(Blocked::Metadata), "{ip}");
            }
        }
        for name in ["metadata.google.internal", "METADATA.google.internal.", "metadata", "instance-data"] {
            assert_eq!(guard.check_name(name), Err(Blocked::Metadata), "{name}");
        }
        assert_eq!(guard.check_name("metadata.example.com"), Ok(()));
    }

    #[test]
    fn an_allowed_network_is_allowed_exactly() {
        let guard = loopback_allowed();
        for ip in ["127.0.0.1", "127.255.255.255", "::ffff:127.0.0.1"] {
            assert_eq!(data(&guard, ip), Ok(()), "{ip}");
        }
        for ip in ["10.0.0.1", "::1", "126.0.0.1", "64:ff9b::127.0.0.1", "::127.0.0.1", "2002:7f00:1::"] {
            let public = ip.starts_with("126");
            assert_eq!(data(&guard, ip).is_ok(), public, "{ip}");
        }
    }

    /// WH9: plain http reaches private addresses that are meant, and public ones only when that is switched on.
    #[test]
    fn plain_http_to_public_addresses_needs_a_switch() {
        let (public, private): (IpAddr, IpAddr) = ([1, 1, 1, 1].into(), [10, 0, 0, 1].into());
        for trust in [Trust::Data, Trust::Operator] {
            assert_eq!(Guard::public_only().check_plain(public, trust), Err(Blocked::PlainHttp));
            assert_eq!(Guard::public_only().plain_http(true).check_plain(public, trust), Ok(()));
        }
        let meant = Guard::public_only().allowing(vec!["1.1.1.0/24".parse().unwrap()]);
        assert_eq!(meant.check_plain(public, Trust::Data), Ok(()));
        assert_eq!(Guard::public_only().check_plain(private, Trust::Operator), Ok(()));
        assert_eq!(
            Guard::public_only().plain_http(true).check_plain(private, Trust::Data),
            Err(Blocked::NotPublic)
        );
    }

    proptest::proptest! {
        /// However an IPv4 address is wrapped, the wrapping is never judged more kindly than the address itself.
        #[test]
        fn wrapping_never_helps(bits: u32, middle: u16) {
            let [high, low] = [(bits >> 16) as u16, bits as u16];
            let wrapped = [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, middle, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, middle, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, middle, 0, 0, 0, !high, !low),
            ];
            let guard = Guard::public_only();
            let bare = guard.check(Ipv4Addr::from(bits).into(), Trust::Data);
            for ip in wrapped {
                let verdict = guard.check(ip.into(), Trust::Data);
                proptest::prop_assert!(bare.is_ok() || verdict.is_err(), "{ip}");
                proptest::prop_assert!(bare != Err(Blocked::Metadata) || verdict == bare, "{ip}");
            }
        }
    }
}
