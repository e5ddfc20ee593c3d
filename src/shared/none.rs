use super::Cell;

/// Nothing to share, for algorithms without a state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NoState;

impl Cell for NoState {
    type State = ();
    type Step<'a> = Box<()>;

    #[inline(always)]
    fn begin(&self) -> Box<()> {
        Box::default() // of no size, so nothing is allocated
    }

    #[inline(always)]
    fn commit(&self, _: Box<()>) -> Result<(), Box<()>> {
        Ok(())
    }
}
