// SPDX-License-Identifier: Apache-2.0
//! The two directions of an end over iceoryx2, for C: the library's own C interface is not a published crate.
//! Configured as its publish-subscribe benchmark: one service of one process each way, byte slices, no events.
use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::MaybeUninit;
use core::slice;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use std::error::Error;
use std::ffi::CString;

const BURST: c_int = 256; // messages taken in one poll

extern "C" {
    fn adapter_deliver(data: *const c_void, size: usize);
    fn adapter_fail(what: *const c_char, why: *const c_char) -> c_int;
}

pub struct Ends {
    sender: Publisher<ipc::Service, [u8], ()>,
    receiver: Subscriber<ipc::Service, [u8], ()>,
    _node: Node<ipc::Service>,
}

/// Configuration of an end; texts end with a zero byte.
#[repr(C)]
pub struct Place {
    common: *const c_char,  // directory that both ends share; its name is unique to the measurement
    send: *const c_char,    // names of the two directions
    receive: *const c_char,
    size: usize,            // bytes of every message
    queue: usize,           // capacity of a direction in messages
}

unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Box<dyn Error>> {
    Ok(CStr::from_ptr(pointer).to_str()?)
}

/// Keeps files and shared memory apart from those of other programs.
unsafe fn config(place: &Place) -> Result<Config, Box<dyn Error>> {
    let common = text(place.common)?;
    let mut config = Config::default();

    config.global.set_root_path(&Path::new(common.as_bytes())?);
    config.global.prefix = FileName::new(common.trim_start_matches('/').replace('/', "-").as_bytes())?;
    // Every receive scans all of these buffers; with the default of 128 that takes most of a hop.
    config.defaults.publish_subscribe.subscriber_expired_connection_buffer = 1;
    Ok(config)
}

type Service = iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, [u8], ()>;

fn service(node: &Node<ipc::Service>, name: &str, queue: usize) -> Result<Service, Box<dyn Error>> {
    Ok(node
        .service_builder(&name.try_into()?)
        .publish_subscribe::<[u8]>()
        .max_publishers(1)
        .max_subscribers(1)
        .history_size(0)
        .subscriber_max_buffer_size(queue)
        .enable_safe_overflow(false)
        .open_or_create()?)
}

unsafe fn open(place: &Place) -> Result<Ends, Box<dyn Error>> {
    let node = NodeBuilder::new()
        .config(&config(place)?)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()?;
    let sender = service(&node, text(place.send)?, place.queue)?
        .publisher_builder()
        .initial_max_slice_len(place.size)
        .backpressure_strategy(BackpressureStrategy::DiscardData)
        .create()?;
    let receiver = service(&node, text(place.receive)?, place.queue)?.subscriber_builder().create()?;
    Ok(Ends { sender, receiver, _node: node })
}

/// Returns NULL on failure, after printing the reason.
///
/// # Safety
/// `place` is valid.
#[no_mangle]
pub unsafe extern "C" fn iceoryx2_open(place: *const Place) -> *mut Ends {
    set_log_level(LogLevel::Error);
    match open(&*place) {
        Ok(ends) => Box::into_raw(Box::new(ends)),
        Err(error) => {
            let why = CString::new(format!("{error:?}")).unwrap_or_default();
            adapter_fail(c"cannot open a service".as_ptr(), why.as_ptr());
            core::ptr::null_mut()
        }
    }
}

/// Returns 1, or 0 if the message was refused. The message is written into the receiver's shared memory.
///
/// # Safety
/// `ends` is open, and `size` bytes are at `data`.
#[no_mangle]
pub unsafe extern "C" fn iceoryx2_send(ends: *mut Ends, data: *const c_void, size: usize) -> c_int {
    let Ok(mut sample) = (*ends).sender.loan_slice_uninit(size) else {
        return 0;
    };
    let bytes = slice::from_raw_parts(data.cast::<MaybeUninit<u8>>(), size);
    sample.payload_mut().copy_from_slice(bytes);
    // Number of receivers reached: 0 if the receiver's queue is full.
    matches!(sample.assume_init().send(), Ok(1)) as c_int
}

/// Returns the number of messages delivered. Messages may be sent back from within.
///
/// # Safety
/// `ends` is open.
#[no_mangle]
pub unsafe extern "C" fn iceoryx2_poll(ends: *mut Ends) -> c_int {
    let mut count = 0;

    while count < BURST {
        let Ok(Some(sample)) = (*ends).receiver.receive() else {
            break;
        };
        let payload = sample.payload();
        adapter_deliver(payload.as_ptr().cast(), payload.len());
        count += 1;
    }
    count
}

/// # Safety
/// `ends` is open, and invalid after this call.
#[no_mangle]
pub unsafe extern "C" fn iceoryx2_close(ends: *mut Ends) {
    drop(Box::from_raw(ends));
}
