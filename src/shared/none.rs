use super::Cell;

/// Nothing to share, for algorithms without a state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NoState;

impl Cell for NoState {
    type State = ();
    type Step<'a> = Box<()>;

    fn holding((): ()) -> Self {
        Self
    }

    #[inline(always)]
    fn begin(&self) -> Option<Box<()>> {
        Some(Box::default()) // of no size, so nothing is allocated
    }

    #[inline(always)]
    fn commit(&self, _: Box<()>) -> Result<(), Option<Box<()>>> {
        Ok(())
    }

    /// Without a state there is nothing to move: it stays.
    fn retire(&self, _: Box<()>) -> Result<(), Option<Box<()>>> {
        Ok(())
    }

    fn set(&self, (): ()) {}
}
